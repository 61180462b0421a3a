"""Ends the turns when granian stops.

granian waits for open streams before it sends `lifespan.shutdown`, and has no time limit for that.
So its workers learn of the stop from their signal.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["ends_turns"]

GRACE = 5.0
"""For how many seconds after the signal turns may end by themselves: what the README gives uvicorn."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def _is_worker() -> bool:
    """Returns whether this is the thread of a worker of granian that gets its signals."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and multiprocessing.current_process().name == "granian-worker"


@contextmanager
def ends_turns(end: Callable[[], Awaitable[None]]) -> Iterator[None]:
    """Awaits `end` after a signal and the grace, if this is a worker of granian.

    granian's own handler runs as before. Python writes each signal to the event loop and calls one
    function for it; only that function is replaced, and calls the one that was there.
    """
    if not _is_worker():
        yield
        return
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []
    previous: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}

    async def end_later() -> None:
        await asyncio.sleep(GRACE)
        await end()

    def begin() -> None:
        if not ending:
            ending.append(loop.create_task(end_later()))

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(begin)
        if callable(previous[number]):
            previous[number](number, frame)

    for number in SIGNALS:
        signal.signal(number, handle)
        # As asyncio sets it: system calls in other threads continue.
        signal.siginterrupt(number, False)
    try:
        yield
    finally:
        for signaled, handler in previous.items():
            signal.signal(signaled, handler)
        for task in ending:
            task.cancel()
