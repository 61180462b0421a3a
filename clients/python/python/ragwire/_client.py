"""Asking a ragwire server, and reading its turns through broken connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Optional, TypeVar, Union

from ragwire._http import AsyncHttp, Httpx, LostError, async_http, short_body, short_body_async
from ragwire._items import DisconnectedError, Item, TruncatedError
from ragwire._resume import ACCEPT, OwnWire, Reading, Request, Retry, Routes, accepted

if TYPE_CHECKING:
    import aiohttp
    import httpx

    from ragwire._ragwire import MessageRecord

Mode = Literal["agentic", "direct"]
Effort = Literal["none", "low", "medium", "high", "xhigh"]

SILENCE_TIMEOUT = 60.0
"""How long a server may send nothing, in seconds. Ours sends a keep-alive every few seconds."""

_A = TypeVar("_A", bound="_Answer")
_Client = TypeVar("_Client", bound="Client")
_AsyncClient = TypeVar("_AsyncClient", bound="AsyncClient")


def _lost(error: LostError) -> DisconnectedError:
    return DisconnectedError(f"the connection was lost: {error.__cause__!r}", None, 0)


class _Answer:
    """What the two kinds of answers share."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._is_started = False

    @property
    def turn(self) -> Optional[str]:
        """The turn's ID, from the first item on; None if the server does not keep turns."""
        return self._reading.turn

    @property
    def next_index(self) -> int:
        """The index of the next frame, for `resume`."""
        return self._reading.next_index

    def _start(self) -> Reading:
        if self._is_started:
            raise RuntimeError("an answer is read once; use `resume` to read it again")
        self._is_started = True
        return self._reading


class Answer(_Answer):
    """The items of a turn. The request is sent when iteration begins."""

    def __init__(self, http: Httpx, reading: Reading) -> None:
        """Only `Client` creates it.

        Args:
            http: The client's connections.
            reading: What was read of the turn.
        """
        super().__init__(reading)
        self._http = http

    def __iter__(self) -> Iterator[Item]:
        """Yields the items up to the end; reconnects as the client's `Retry` says.

        Leaving the loop closes the connection; it does not stop the turn.

        Raises:
            RefusedError: The server refused the request.
            DecodeError: The stream breaks a rule of its wire.
            DisconnectedError: The connection was lost and could not be restored.
            TruncatedError: The stream ended early, and the turn cannot be resumed.
        """
        reading = self._start()
        while not reading.has_ended:
            try:
                with self._http.send(reading.request) as response:
                    if response.status == 200:
                        reading.begin(response.headers)
                        for chunk in response.chunks():
                            yield from reading.feed(chunk)
                            if reading.has_ended:
                                return
                        yield from reading.close()
                    else:
                        reading.refuse(response.status, response.headers, short_body(response.chunks()))
            except (LostError, TruncatedError) as error:
                reading.lost(error)
            if not reading.has_ended:
                time.sleep(reading.delay)


class AsyncAnswer(_Answer):
    """The items of a turn. The request is sent when iteration begins."""

    def __init__(self, http: AsyncHttp, reading: Reading) -> None:
        """Only `AsyncClient` creates it.

        Args:
            http: The client's connections.
            reading: What was read of the turn.
        """
        super().__init__(reading)
        self._http = http

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Yields the items up to the end, as `Answer` does."""
        reading = self._start()
        while not reading.has_ended:
            try:
                async with self._http.send(reading.request) as response:
                    if response.status == 200:
                        reading.begin(response.headers)
                        async for chunk in response.chunks():
                            for item in reading.feed(chunk):
                                yield item
                            if reading.has_ended:
                                return
                        for item in reading.close():
                            yield item
                    else:
                        body = await short_body_async(response.chunks())
                        reading.refuse(response.status, response.headers, body)
            except (LostError, TruncatedError) as error:
                reading.lost(error)
            if not reading.has_ended:
                await asyncio.sleep(reading.delay)


class _Asking(Generic[_A]):
    """What the two clients share: the requests, and how answers are described."""

    def __init__(self, url: str, headers: Optional[Mapping[str, str]], wire: OwnWire, retry: Retry) -> None:
        self._routes = Routes(url, headers)
        if wire not in ACCEPT:
            known = ", ".join(ACCEPT)
            raise ValueError(f"wire must be one of {known}, whose frames have an index, not {wire!r}")
        self._wire: OwnWire = wire
        self._retry = retry

    def _read(self, reading: Reading) -> _A:
        raise NotImplementedError

    def ask(
        self,
        prompt: str,
        *,
        session_id: Optional[str] = None,
        history: Optional[Sequence[MessageRecord]] = None,
        mode: Optional[Mode] = None,
        effort: Optional[Effort] = None,
        review_enabled: Optional[bool] = None,
        filter: object = None,
        options: Optional[Mapping[str, Any]] = None,
    ) -> _A:
        """Asks a question; iterate over the result.

        The question is sent once: a connection that breaks before the response begins is a
        `DisconnectedError`.

        Args:
            prompt: The question.
            session_id: The conversation that the server keeps. Default: none.
            history: The conversation of a client that keeps it itself, oldest message first.
            mode: How to answer. Default: the server decides.
            effort: How much work to spend. Default: `medium`.
            review_enabled: Whether the answer is reviewed before it is shown, if the server can.
            filter: Which documents to search, as the server's orchestrator defines it.
            options: Those that `POST /v1/turns` documents, such as `{"extra": {...}}`.
        """
        members = {
            "prompt": prompt,
            "session_id": session_id,
            "history": history,
            "mode": mode,
            "effort": effort,
            "review_enabled": review_enabled,
            "filter": filter,
            "options": options,
        }
        question = {name: value for name, value in members.items() if value is not None}
        request = self._routes.ask(self._wire, question)
        return self._read(Reading(self._routes, self._wire, self._retry, request, None, 0))

    def resume(self, turn: str, start: int = 0) -> _A:
        """Reads a turn from a frame on. A reader that has every frame gets no item.

        Args:
            turn: The ID of the turn, such as `Answer.turn`.
            start: The index of the first frame to read, such as `Answer.next_index`.
        """
        request = self._routes.stream(self._wire, turn, start)
        return self._read(Reading(self._routes, self._wire, self._retry, request, turn, start))


class Client(_Asking[Answer]):
    """Asks a ragwire server and reads the answers, over httpx.

    ::

        with ragwire.Client("http://localhost:8000") as client:
            for item in client.ask("What is the commit rule?"):
                if isinstance(item, ragwire.TextItem):
                    print(item.text, end="")
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        wire: OwnWire = "ndjson",
        retry: Retry = Retry(),
        timeout: float = SILENCE_TIMEOUT,
        http: Optional[httpx.Client] = None,
    ) -> None:
        """Creates a client; nothing connects before the first request.

        Args:
            url: Where the endpoints are, such as `http://localhost:8000/rag`.
            headers: Sent with every request.
            wire: How turns are read.
            retry: How a lost connection is restored.
            timeout: For how many seconds the server may send nothing.
            http: A client of your own, with its own proxies and certificates. It is not closed.

        Raises:
            ValueError: The URL does not begin with `http://` or `https://`, or the wire is unknown.
            TypeError: `http` is not an `httpx.Client`.
            ModuleNotFoundError: httpx is not installed.
        """
        super().__init__(url, headers, wire, retry)
        self._http = Httpx(http, timeout)

    def _read(self, reading: Reading) -> Answer:
        return Answer(self._http, reading)

    def stop(self, turn: str) -> bool:
        """Stops a turn. Returns `False` if it had already ended.

        Args:
            turn: The ID of the turn.

        Raises:
            RefusedError: The server does not know the turn, or refuses to stop it.
            DisconnectedError: The server cannot be reached.
        """
        return self._call(self._routes.stop(turn), "stopped")

    def answer(self, turn: str, request_id: str, response: object) -> bool:
        """Answers the question of an `input_requested` event. Returns `False` if it had the same answer before.

        Args:
            turn: The ID of the turn.
            request_id: The `request_id` of the event.
            response: One of the event's `options`, or any JSON if it has none.

        Raises:
            RefusedError: The answer was not accepted, for example with code `ask_over` or
                `answer_invalid`.
            DisconnectedError: The server cannot be reached.
        """
        return self._call(self._routes.answer(turn, request_id, response), "accepted")

    def _call(self, request: Request, member: str) -> bool:
        try:
            with self._http.send(request) as response:
                return accepted(response.status, response.headers, short_body(response.chunks()), member)
        except LostError as error:
            raise _lost(error) from error

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self: _Client) -> _Client:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


class AsyncClient(_Asking[AsyncAnswer]):
    """Asks a ragwire server and reads the answers on an event loop, over httpx or aiohttp.

    ::

        async with ragwire.AsyncClient("http://localhost:8000") as client:
            async for item in client.ask("What is the commit rule?"):
                ...
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        wire: OwnWire = "ndjson",
        retry: Retry = Retry(),
        timeout: float = SILENCE_TIMEOUT,
        http: Union[httpx.AsyncClient, aiohttp.ClientSession, None] = None,
    ) -> None:
        """Creates a client; nothing connects before the first request.

        Args:
            url: Where the endpoints are, such as `http://localhost:8000/rag`.
            headers: Sent with every request.
            wire: How turns are read.
            retry: How a lost connection is restored.
            timeout: For how many seconds the server may send nothing.
            http: A client or session of your own, with its own proxies and certificates. It is not
                closed. Default: one of httpx, or of aiohttp if httpx is not installed.

        Raises:
            ValueError: The URL does not begin with `http://` or `https://`, or the wire is unknown.
            TypeError: `http` is neither an `httpx.AsyncClient` nor an `aiohttp.ClientSession`.
            ModuleNotFoundError: Neither httpx nor aiohttp is installed.
        """
        super().__init__(url, headers, wire, retry)
        self._http = async_http(http, timeout)

    def _read(self, reading: Reading) -> AsyncAnswer:
        return AsyncAnswer(self._http, reading)

    async def stop(self, turn: str) -> bool:
        """Stops a turn. Returns `False` if it had already ended.

        Args:
            turn: The ID of the turn.

        Raises:
            RefusedError: The server does not know the turn, or refuses to stop it.
            DisconnectedError: The server cannot be reached.
        """
        return await self._call(self._routes.stop(turn), "stopped")

    async def answer(self, turn: str, request_id: str, response: object) -> bool:
        """Answers the question of an `input_requested` event. Returns `False` if it had the same answer before.

        Args:
            turn: The ID of the turn.
            request_id: The `request_id` of the event.
            response: One of the event's `options`, or any JSON if it has none.

        Raises:
            RefusedError: The answer was not accepted, for example with code `ask_over` or
                `answer_invalid`.
            DisconnectedError: The server cannot be reached.
        """
        return await self._call(self._routes.answer(turn, request_id, response), "accepted")

    async def _call(self, request: Request, member: str) -> bool:
        try:
            async with self._http.send(request) as response:
                body = await short_body_async(response.chunks())
                return accepted(response.status, response.headers, body, member)
        except LostError as error:
            raise _lost(error) from error

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.close()

    async def __aenter__(self: _AsyncClient) -> _AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()
