"""Group commit: one thread writes what many requests have changed, and they wait for it together.

A batch is cut between two callbacks of the event loop, so what a request changes without a pause is
in one batch. When a batch cannot be written, the thread tries it again until it can. Until then
``check`` and ``flush`` raise ApiError 503, so nothing more is changed. While nothing is changed, an
empty batch shows now and then whether something could be written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.state.rows import Change, StoreError

_DELAY: Final = 0.05
"""Seconds after which changes are written for which nobody waits."""

_SECONDS_TO_RETRY: Final = 0.5
_SECONDS_TO_WAIT: Final = 10.0
"""For a batch, before those who wait for it get an error."""

_SECONDS_TO_CLOSE: Final = 10.0

log = logging.getLogger("invoice_sandbox")

_Batch = Sequence[Change]


class Writer:
    """Writes changes in their order. Everything except the thread runs on the event loop."""

    def __init__(self, write: Callable[[_Batch], None], beats: float | None = None) -> None:
        """``write`` makes all changes of a batch or none. It raises StoreError. ``beats`` are the
        seconds between empty batches, None: there are none."""
        self._write = write
        self._pending: list[Change] = []
        self._is_awaited = False
        self._saved: asyncio.Future[bool] | None = None
        self._writing: asyncio.Future[bool] | None = None
        self._is_writing = False
        self._timer: asyncio.Handle | None = None
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._problem: str | None = None
        self._is_closing = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()
        self._beats = beats
        self._beat = None if beats is None else self._loop.call_later(beats, self._on_beat)

    @property
    def problem(self) -> str | None:
        """Why nothing can be written at present; None: it can."""
        return self._problem

    def check(self) -> None:
        """Raise ApiError 503 while nothing can be written."""
        if self._problem is not None:
            raise unavailable()

    def add(self, changes: Sequence[Change], *, lazily: bool = False) -> None:
        """Write the changes after those that were added before. ``lazily``: ``flush`` does not wait
        for them."""
        if not changes:
            return
        self._pending.extend(changes)
        self._is_awaited = self._is_awaited or not lazily
        if self._timer is None and not self._is_writing:
            self._timer = self._loop.call_later(_DELAY, self._hand_over)

    async def flush(self) -> None:
        """Wait until everything that was added before is written. Raises ApiError 503."""
        self.check()
        saved = self._writing
        if self._is_awaited:
            if self._saved is None:
                self._saved = self._loop.create_future()
                if not self._is_writing:
                    self._loop.call_soon(self._hand_over)
            saved = self._saved
        if saved is not None and not await self._is_saved(saved):
            raise unavailable()

    async def _is_saved(self, saved: asyncio.Future[bool]) -> bool:
        try:
            async with asyncio.timeout(_SECONDS_TO_WAIT):
                return await asyncio.shield(saved)
        except TimeoutError:
            return False

    async def close(self) -> None:
        """Write what is left, and end the thread. What cannot be written is logged."""
        self._is_closing.set()
        if self._beat is not None:
            self._beat.cancel()
        self._is_awaited = bool(self._pending)
        with contextlib.suppress(ApiError):
            await self.flush()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._batches.put(None)
        self._thread.join(_SECONDS_TO_CLOSE)

    def _hand_over(self) -> None:
        """Give the thread everything that is pending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_writing or not self._pending:
            return
        batch, self._pending = self._pending, []
        self._is_writing = True
        self._writing, self._saved = self._saved, None
        if self._is_awaited and self._writing is None:
            self._writing = self._loop.create_future()
        self._is_awaited = False
        self._batches.put(batch)

    def _on_beat(self) -> None:
        """Write an empty batch, unless another one is being written."""
        assert self._beats is not None  # noqa: S101  otherwise there are none
        self._beat = self._loop.call_later(self._beats, self._on_beat)
        if not self._is_writing and not self._pending:
            self._is_writing = True
            self._batches.put(())

    def _on_saved(self) -> None:
        if self._problem is not None:
            log.warning("The store can be written again")
            self._problem = None
        self._is_writing = False
        _resolve(self._writing, saved=True)
        self._writing = None
        if self._pending:
            self._hand_over()

    def _on_failed(self, problem: str) -> None:
        if self._problem is None:
            log.error("The store cannot be written: %s", problem)
        self._problem = problem
        _resolve(self._writing, saved=False)
        _resolve(self._saved, saved=False)
        self._saved = None

    def _run(self) -> None:
        while (batch := self._batches.get()) is not None:
            while not self._try(batch):
                if self._is_closing.wait(_SECONDS_TO_RETRY):
                    if not self._try(batch):
                        log.error("%d changes of the store were not written", len(batch))
                    break

    def _try(self, batch: _Batch) -> bool:
        try:
            self._write(batch)
        except StoreError as error:
            self._report(self._on_failed, str(error))
            return False
        except Exception as error:
            log.exception("a batch of changes cannot be written")
            self._report(self._on_failed, f"internal error ({type(error).__name__})")
            return False
        self._report(self._on_saved)
        return True

    def _report(self, callback: Callable[..., None], *arguments: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed without waiting
            self._loop.call_soon_threadsafe(callback, *arguments)


def unavailable() -> ApiError:
    """The error while nothing can be written."""
    return reject("store_unavailable", ("Retry-After", "1"))


def _resolve(future: asyncio.Future[bool] | None, *, saved: bool) -> None:
    if future is not None and not future.done():
        future.set_result(saved)
