"""Makes one coroutine function of every kind of orchestrator."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from ragwire._errors import Failure, SendError
from ragwire._ragwire import Event, Metadata, Question, Sink

__all__ = ["Answer", "adapt"]

logger = logging.getLogger("ragwire")

# As many as turns run at the same time by default, so that none of them waits for a thread.
MAX_THREADS = 64

# What generators are annotated with; only generator functions are accepted.
_Items: TypeAlias = AsyncIterator[str | Event | Metadata] | Iterator[str | Event | Metadata]

Answer = (
    Callable[[Question, Sink], Awaitable["Metadata | None"]]
    | Callable[[Question, Sink], "Metadata | None"]
    | Callable[[Question], _Items]
    | Callable[[Question, Sink], _Items]
)
"""An orchestrator: an async function, a function that runs in a thread, or a generator of either kind."""


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
        was_called = inspect.isawaitable(answer) or hasattr(answer, "__aiter__")
        fix = "pass the function itself: Endpoints(answer), not Endpoints(answer(...))" if was_called else _FORMS
        raise TypeError(f"an orchestrator is a function, not {type(answer).__name__}: {fix}")
    start = _start(cast("Callable[..., Any]", answer))

    async def run(question: Question, sink: Sink, reply: Reply) -> None:
        try:
            result = await start(question, sink)
            if result is not None and not isinstance(result, Metadata):
                raise TypeError(
                    f"an orchestrator returns ragwire.Metadata or None, not {type(result).__name__}: {_returned(result)}"
                )
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
                logger.exception("the orchestrator of turn %s failed", sink.turn_id, extra={"turn_id": sink.turn_id})
            reply.fail(None)
        except BaseException:
            reply.fail(None)
            raise
        else:
            reply.complete(result)

    return run


_FORMS = "write `async def answer(question, sink)`, `def answer(question, sink)`, or a generator of `question`"


def _returned(result: object) -> str:
    """Returns what to write instead of this result."""
    if isinstance(result, str):
        return "send the answer with `await sink.text(text)`"
    if isinstance(result, dict):
        return "`return ragwire.Metadata(**metadata)`"
    if hasattr(result, "__aiter__") or hasattr(result, "__next__"):
        return "send its pieces: `async for text in stream: await sink.text(text)`"
    return "emit events and text into the sink"


def _start(answer: Callable[..., Any]) -> _Start:
    function = answer
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function) and not isinstance(function, type):
        # An object with `__call__`.
        function = getattr(function, "__call__", function)
    is_generator = inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)
    takes_sink = _takes_sink(answer, is_generator)
    if inspect.isasyncgenfunction(function):

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

    def iterate(question: Question, sink: Sink) -> object:
        metadata: Metadata | None = None
        items = answer(question, sink) if takes_sink else answer(question)
        with contextlib.closing(items):
            for item in items:
                if isinstance(item, Metadata):
                    metadata = item
                else:
                    sink.send(item)
        return metadata

    in_turn = iterate if is_generator else answer

    async def in_thread(question: Question, sink: Sink) -> object:
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()

        def run() -> object:
            return context.run(in_turn, question, sink)

        result = await loop.run_in_executor(_pool(), run)
        # A plain function may return a coroutine, as `functools.partial` and decorators do.
        if inspect.isawaitable(result):
            return cast("object", await result)
        return result

    return in_thread


def _binds(signature: inspect.Signature, *arguments: None) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _takes_sink(function: Callable[..., Any], is_generator: bool) -> bool:
    """Returns whether to call `function` with a sink too.

    Raises:
        TypeError: It cannot be called with a question and a sink.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Written in C.
        return True
    if is_generator and _binds(signature, None):
        # Another argument with a default is the application's own, unless it is the sink.
        return list(signature.parameters)[1:2] == ["sink"]
    if _binds(signature, None, None):
        return True
    name = getattr(function, "__qualname__", type(function).__name__)
    raise TypeError(f"{name}{signature} cannot be called with a question and a sink: {_FORMS}")
