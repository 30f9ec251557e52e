"""The control functions that replay bundles, each in a process of its own.

The server only starts the process and waits: a replay has its own memory and CPU time, with limits,
and runs at the lowest priority.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.budget import Budget, Held
from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import resource_id
from invoice_sandbox.bundles.archive import BundleError, zipped
from invoice_sandbox.bundles.environment import Served
from invoice_sandbox.bundles.saving import bundle_of
from invoice_sandbox.control.acceptance import get_acceptance_bundle
from invoice_sandbox.control.recordings import get_recording
from invoice_sandbox.http.pages import served_document
from invoice_sandbox.openapi.load.merge import with_vocabularies
from invoice_sandbox.project.contracts import SCENARIOS
from invoice_sandbox.runtime.control_call import ControlCall, ControlFunction
from invoice_sandbox.settings import ENVIRONMENT_PREFIX
from invoice_sandbox.state import NoWorkspaceError, Record

REPLAYS_LOG: Final = "replays"
"""The log of a workspace with what came of its replays."""

MOST: Final = 16
MOST_OF_A_FAMILY: Final = 4
"""Replays that run or wait: of the server, and of a workspace and all created from it."""

SIDE_BY_SIDE: Final = 1
"""Replays of the server that run at a time."""

MOST_SECONDS: Final = 120
"""Real seconds of a replay; ``invoice_sandbox.cli.replay`` limits its CPU time and memory."""

_LISTED: Final = 20
_PREFIX: Final = "rpl_sandbox"
_FILE: Final = "bundle.zip"
_ENDED: Final = (
    "the replay did not end within its time and memory; use 'invoice-sandbox replay FILE'"
)
_PENDING: Final = ("same", "requests", "withEnd", "difference", "problem")

log = logging.getLogger("invoice_sandbox")

Content = Callable[[], Awaitable[bytes]]


class Replays:
    """The replays of a server. ``served``: what they serve; None: nothing is replayed, as this
    server is a replay itself."""

    def __init__(self, served: Served | None) -> None:
        self._served = served
        self._places = Budget(MOST)
        self._turns = asyncio.Semaphore(SIDE_BY_SIDE)
        self._under_way: dict[str, Record] = {}

    def functions(self) -> Mapping[str, ControlFunction]:
        """The control functions by operationId."""
        return {
            "listBundleReplays": self._list,
            "replayBundle": self._replay_workspace,
            "replayAcceptanceBundle": self._replay_run,
        }

    async def _list(self, call: ControlCall) -> list[Record]:
        """The replays of the workspace, newest first."""
        found = (await call.engine.store.log(call.workspace.id, REPLAYS_LOG)).entries
        under_way = self._under_way.get(call.workspace.id)
        now = [dict(under_way)] if under_way else []
        return [*now, *reversed(found[-_LISTED:])]

    async def _replay_workspace(self, call: ControlCall) -> Record:
        """Replay what happened in the workspace until now. Raises ApiError 409."""
        return await self._start(call, None, lambda: _bundle_of_workspace(call))

    async def _replay_run(self, call: ControlCall) -> Record:
        """Replay the bundle of a run. Raises ApiError 404, and 409 like the other one."""
        await get_acceptance_bundle(call)

        async def content() -> bytes:
            return (await get_acceptance_bundle(call)).body

        return await self._start(call, str(call.path["id"]), content)

    async def _start(self, call: ControlCall, run: str | None, content: Content) -> Record:
        workspace, engine = call.workspace, call.engine
        eldest = await engine.workspaces.eldest(workspace)
        number = await engine.store.count_logged(workspace.id, REPLAYS_LOG) + 1
        replay: Record = {
            "id": resource_id(_PREFIX, workspace.token, number),
            "startedAt": instant_text(engine.system_clock.calendar()),
            "run": run,
            "state": "waiting",
            **dict.fromkeys(_PENDING),
            "notes": [],
        }
        if self._served is None:
            return replay
        place = self._places.hold({eldest.id: MOST_OF_A_FAMILY})
        if workspace.id in self._under_way or not place.take(1):
            raise reject(
                "conflict",
                problem="The workspace, or the server, has as many replays under way as it may",
                advice="GET /sandbox/replays shows those of the workspace.",
            )
        self._under_way[workspace.id] = replay
        task = asyncio.create_task(self._run(call, replay, content, self._served, place))
        engine.beside.add(task)
        task.add_done_callback(engine.beside.discard)
        return dict(replay)

    async def _run(
        self, call: ControlCall, replay: Record, content: Content, served: Served, place: Held
    ) -> None:
        """Wait for a turn, replay, and log what comes of it."""
        workspace_id = call.workspace.id
        try:
            async with self._turns:
                replay["state"] = "running"
                replay |= await _found(call, content, served)
            replay["state"] = "finished"
            size = len(jsonio.dumps(replay))
            await call.engine.store.append(workspace_id, REPLAYS_LOG, dict(replay), size)
        except (ApiError, NoWorkspaceError) as error:
            log.warning("%s: a replay was not noted: %s", workspace_id, error)
        finally:
            del self._under_way[workspace_id]
            place.release()


async def _found(call: ControlCall, content: Content, served: Served) -> Record:
    """What comes of the replay of a bundle. Raises NoWorkspaceError and ApiError."""
    try:
        return await _outcome(await content(), served, call.engine.stopping)
    except BundleError as error:
        return {"problem": str(error)}


async def _bundle_of_workspace(call: ControlCall) -> bytes:
    """The bundle that ``invoice-sandbox bundle save`` writes. Raises BundleError."""
    project, url = call.engine.project, call.engine.url
    recording = await get_recording(call)
    words = {SCENARIOS: tuple(project.scenarios)}
    contract = with_vocabularies(served_document(project.contract, url), words)

    def written() -> bytes:
        parts = bundle_of(recording, json.loads(jsonio.dumps(contract)))
        return zipped(_FILE, *parts)

    return await asyncio.to_thread(written)


async def _outcome(content: bytes, served: Served, stopping: asyncio.Event) -> Record:
    """What a process reports about the bundle ``content``."""
    process = _started(served)
    reported = asyncio.ensure_future(asyncio.to_thread(process.communicate, content))
    stopped = asyncio.ensure_future(stopping.wait())
    try:
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({reported, stopped}, timeout=MOST_SECONDS, return_when=first)
    finally:
        stopped.cancel()
        process.kill()
    output, _ = await reported
    lines = output.splitlines()
    if process.returncode != 0 or not lines:
        return {"problem": _ENDED}
    found: Record = json.loads(lines[-1])
    return found


def _started(served: Served) -> subprocess.Popen[bytes]:
    """A process that replays what is written to it, without the settings of the server."""
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-P", "-m", "invoice_sandbox.cli.replay", _arguments(served)],
        env={k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _arguments(served: Served) -> str:
    places = {
        "project": served.project,
        "contract": served.contract,
        "scenarios": served.scenarios,
    }
    texts = {name: place and str(place) for name, place in places.items()}
    return json.dumps({**texts, "folders": list(map(str, served.folders))})
