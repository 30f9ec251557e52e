"""Takes jobs from the job engine, which is Procrastinate.

A job says that something is due in a family of workspaces that no replica runs, or that another
replica wants a family of this one. It holds the id of the family and an instant, and nothing else.
The tables of workspaces and steps are the truth: the schema writes a job in the transaction that
makes it necessary, and whoever takes one asks the tables what there is to do. So a job may come
twice, or too early. It is tried once: what is left to do gets another one within a second, as
does what lost its job.

NOTIFY lets a worker take a new job at once. One that is lost costs the interval between two looks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Final, ParamSpec

import procrastinate
import psycopg
from procrastinate.exceptions import AppNotOpen, ConnectorException
from procrastinate.worker import Worker

from invoice_sandbox.base.errors import ApiError

CONNECTIONS_OF_JOBS: Final = 3
"""One of them is for NOTIFY."""

_MOST: Final = 4
"""Families that a process takes up at a time, so that others get some too."""

_SECONDS_BETWEEN_LOOKS: Final = 0.25
_SECONDS_BETWEEN_HEARTBEATS: Final = 1.0
_SECONDS_TO_CONNECT: Final = 5.0
_SECONDS_TO_STOP: Final = 5.0
_PAUSE: Final = 0.5
_EVERY_SECOND: Final = "* * * * * *"
_QUEUE: Final = "due"

log = logging.getLogger("invoice_sandbox")
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)  # what it would log is logged here

P = ParamSpec("P")

OfFamily = Callable[[str], Awaitable[None]]
"""Does the job of a family. What it raises is logged."""


class Jobs:
    """A worker of the engine on the event loop. It begins again when the database is back."""

    def __init__(
        self,
        dsn: str,
        network: Mapping[str, Any],
        lease: float,
        tasks: Mapping[str, OfFamily],
        look_after: Callable[[], Awaitable[None]],
    ) -> None:
        """``tasks`` are those that the schema writes jobs for. ``look_after`` is called every
        second by one of the processes. One without a heartbeat for ``lease`` seconds has ended."""
        self._lease = lease
        self._look_after = look_after
        self._connector = procrastinate.PsycopgConnector(
            conninfo=dsn,
            kwargs=dict(network),
            configure=_commit_each,
            min_size=1,
            max_size=CONNECTIONS_OF_JOBS - 1,
            timeout=_SECONDS_TO_CONNECT,
            name="invoice-sandbox-jobs",
        )
        self._app = procrastinate.App(connector=self._connector)
        for name, work in tasks.items():
            self._app.task(name=name)(_logged(work))
        every = self._app.task(name="look_after", queue=_QUEUE, queueing_lock=_QUEUE, priority=2)
        self._app.periodic(cron=_EVERY_SECOND)(every(_logged(self._run_look_after)))
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, number: Callable[[], int | None]) -> None:
        """Take jobs from now on, as the replica with that number; None: take none at present."""
        self._task = asyncio.get_running_loop().create_task(self._run(number), context=Context())

    def restart(self) -> None:
        """Take no more jobs until the replica has another number."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.stop()

    @property
    def work(self) -> bool:
        """Whether jobs are taken now."""
        return self._worker is not None and self._worker.worker_id is not None

    def pool(self) -> Mapping[str, int]:
        """How many connections are used and idle, and how many jobs wait for one."""
        try:
            found = usage(self._connector.pool.get_stats())
        except AppNotOpen:
            return {}
        return {**found, "used": found["used"] + self.work}

    async def close(self) -> None:
        """Finish the jobs that have begun, and take no more."""
        if self._task is not None:
            self._task.cancel()
            self.restart()  # a pool of psycopg that connects does not pass on that it is cancelled
            await asyncio.wait([self._task])

    async def _run(self, number: Callable[[], int | None]) -> None:
        own = asyncio.current_task()
        assert own is not None  # noqa: S101  it is ``_task``
        try:
            while not own.cancelling():  # the worker may fail as it is cancelled
                try:
                    await self._connector.open_async()
                    if (replica := number()) is not None and not own.cancelling():
                        await self._run_worker(replica)
                except (psycopg.Error, ConnectorException) as error:
                    log.warning("no jobs are taken: %s", error.__cause__ or error)
                except Exception:
                    log.exception("no jobs are taken")
                await asyncio.sleep(_PAUSE)
        finally:
            with suppress(psycopg.Error, ConnectorException):
                await self._connector.close_async()

    async def _run_worker(self, number: int) -> None:
        """``stop`` of the worker counts from its first step on, so nothing is awaited before."""
        self._worker = worker = Worker(
            self._app,
            [_QUEUE, f"replica {number}"],
            concurrency=_MOST,
            fetch_job_polling_interval=_SECONDS_BETWEEN_LOOKS,
            shutdown_graceful_timeout=_SECONDS_TO_STOP,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=_SECONDS_BETWEEN_HEARTBEATS,
            stalled_worker_timeout=self._lease,
        )
        try:
            await worker.run()
            if self._worker is worker:  # nobody stopped it
                log.warning("no jobs are taken for now: the job engine has stopped by itself")
        finally:
            self._worker = None

    async def _run_look_after(self, timestamp: int) -> None:  # noqa: ARG002  the engine passes it
        await self._app.job_manager.prune_stalled_workers(self._lease)
        await self._look_after()


def usage(statistics: Mapping[str, int]) -> Mapping[str, int]:
    """How many connections of a pool are used and idle, and how many callers wait for one."""
    idle = statistics["pool_available"]
    used, waiting = statistics["pool_size"] - idle, statistics["requests_waiting"]
    return {"used": used, "idle": idle, "waiting": waiting}


async def _commit_each(connection: psycopg.AsyncConnection) -> None:
    await connection.set_autocommit(True)


def _logged(work: Callable[P, Awaitable[None]]) -> Callable[P, Coroutine[Any, Any, None]]:
    async def run(*arguments: P.args, **named: P.kwargs) -> None:
        try:
            await work(*arguments, **named)
        except ApiError as error:
            log.warning("workspaces have to wait to be claimed or released: %s", error.message())
            raise
        except Exception:
            log.exception("workspaces could not be claimed or released")
            raise

    return run
