"""Makes one coroutine function of every kind of orchestrator."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, cast

from ragwire._errors import Failure, SendError
from ragwire._ragwire import Event, Metadata, Question, Sink

__all__ = ["Answer", "adapt"]

logger = logging.getLogger("ragwire")

# As many as turns run at the same time by default, so that none of them waits for a thread.
MAX_THREADS = 64

Answer = (
    Callable[[Question, Sink], Awaitable["Metadata | None"]]
    | Callable[[Question, Sink], "Metadata | None"]
    | Callable[[Question], AsyncGenerator["str | Event | Metadata", None]]
    | Callable[[Question, Sink], AsyncGenerator["str | Event | Metadata", None]]
)
"""An orchestrator: an async function, a function that runs in a thread, or an async generator."""


class Reply(Protocol):
    """Takes the result of one run."""

    @property
    def is_cancelled(self) -> bool: ...
    def complete(self, metadata: Metadata | None, /) -> None: ...
    def fail(self, failure: Failure | None, /) -> None: ...
    def interrupt(self) -> None: ...


Run = Callable[[Question, Sink, Reply], Coroutine[Any, Any, None]]
_Start = Callable[[Question, Sink], Awaitable[object]]

_threads: ThreadPoolExecutor | None = None
_threads_lock = threading.Lock()


def _pool() -> ThreadPoolExecutor:
    global _threads
    with _threads_lock:
        if _threads is None:
            _threads = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="ragwire-answer")
        return _threads


def adapt(answer: Answer) -> Run:
    """Returns the coroutine function that runs `answer` and reports its end."""
    if not callable(answer):
        raise TypeError(f"an orchestrator is a function, not {type(answer).__name__}")
    start = _start(cast("Callable[..., Any]", answer))

    async def run(question: Question, sink: Sink, reply: Reply) -> None:
        try:
            result = await start(question, sink)
            if result is not None and not isinstance(result, Metadata):
                raise TypeError(f"an orchestrator returns Metadata or None, not {type(result).__name__}")
        except asyncio.CancelledError:
            # Cancelled by its turn, or by an event loop that shuts down.
            if not reply.is_cancelled:
                reply.interrupt()
            raise
        except Failure as failure:
            reply.fail(failure)
        except Exception as error:
            # The only place that reports the exception: its text never goes to the client. A send
            # after the end of the turn is its normal cancellation.
            if not (reply.is_cancelled and isinstance(error, SendError)):
                logger.exception("orchestrator failed", extra={"turn_id": sink.turn_id})
            reply.fail(None)
        except BaseException:
            reply.fail(None)
            raise
        else:
            reply.complete(result)

    return run


def _start(answer: Callable[..., Any]) -> _Start:
    function = answer
    if not inspect.isroutine(function) and not isinstance(function, type):
        # An object with `__call__`.
        function = getattr(function, "__call__", function)
    if inspect.isasyncgenfunction(function):
        takes_sink = _positional(answer) != 1

        async def generate(question: Question, sink: Sink) -> object:
            metadata: Metadata | None = None
            items = answer(question, sink) if takes_sink else answer(question)
            try:
                async for item in items:
                    if isinstance(item, Metadata):
                        metadata = item
                    else:
                        await sink.send(item)
            finally:
                await items.aclose()
            return metadata

        return generate
    if inspect.iscoroutinefunction(function):
        return answer

    async def in_thread(question: Question, sink: Sink) -> object:
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        run = partial(context.run, answer, question, sink)
        result = cast("object", await loop.run_in_executor(_pool(), run))
        # A plain function may return a coroutine, as `functools.partial` and decorators do.
        if inspect.isawaitable(result):
            return cast("object", await result)
        return result

    return in_thread


def _positional(function: Callable[..., Any]) -> int:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds for parameter in inspect.signature(function).parameters.values())
