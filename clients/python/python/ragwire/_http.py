"""The HTTP libraries that the clients use: httpx for both kinds, aiohttp for the async one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ragwire._resume import MAX_ERROR_BYTES, Request

if TYPE_CHECKING:
    import aiohttp
    import httpx

CONNECT_TIMEOUT = 10.0
"""How long opening a connection may take, in seconds."""


class LostError(Exception):
    """The connection broke; the cause is the library's error."""


class Response(Protocol):
    """The head of a response, and its body."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self) -> Iterator[bytes]: ...


class AsyncResponse(Protocol):
    """The same on an event loop."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    def chunks(self) -> AsyncIterator[bytes]: ...


class AsyncHttp(Protocol):
    """What the async client needs of a library."""

    def send(self, request: Request) -> AbstractAsyncContextManager[AsyncResponse]: ...

    async def close(self) -> None: ...


def short_body(chunks: Iterator[bytes]) -> bytes:
    """Read the body of a refusal, up to its limit."""
    body = b""
    for chunk in chunks:
        body += chunk
        if len(body) >= MAX_ERROR_BYTES:
            break
    return body


async def short_body_async(chunks: AsyncIterator[bytes]) -> bytes:
    """Read the body of a refusal, up to its limit."""
    body = b""
    async for chunk in chunks:
        body += chunk
        if len(body) >= MAX_ERROR_BYTES:
            break
    return body


class _HttpxResponse:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> Iterator[bytes]:
        return self._response.iter_bytes()


class _AsyncHttpxResponse:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()


class _AiohttpResponse:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.content.iter_any()


class Httpx:
    """Sends requests with httpx."""

    def __init__(self, client: httpx.Client | None, timeout: float) -> None:
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("ragwire.Client needs httpx: pip install 'ragwire[httpx]'") from error
        if client is not None and not isinstance(client, httpx.Client):
            raise TypeError(f"http must be an httpx.Client, not {type(client).__name__}")

        self._own = client is None
        self._client = client or httpx.Client()
        self._timeout = httpx.Timeout(timeout, connect=CONNECT_TIMEOUT)
        self._error = httpx.TransportError

    @contextmanager
    def send(self, request: Request) -> Generator[Response, None, None]:
        """Send a request; raises LostError, also from the block."""
        try:
            with self._client.stream(
                request.method,
                request.url,
                headers=dict(request.headers),
                json=request.json,
                timeout=self._timeout,
            ) as response:
                yield _HttpxResponse(response)
        except self._error as error:
            raise LostError from error

    def close(self) -> None:
        """Close the library's client, unless the caller made it."""
        if self._own:
            self._client.close()


class AsyncHttpx:
    """Sends requests with `httpx.AsyncClient`."""

    def __init__(self, client: httpx.AsyncClient | None, timeout: float) -> None:
        import httpx

        self._own = client is None
        self._client = client or httpx.AsyncClient()
        self._timeout = httpx.Timeout(timeout, connect=CONNECT_TIMEOUT)
        self._error = httpx.TransportError

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncGenerator[AsyncResponse, None]:
        """Send a request; raises LostError, also from the block."""
        try:
            async with self._client.stream(
                request.method,
                request.url,
                headers=dict(request.headers),
                json=request.json,
                timeout=self._timeout,
            ) as response:
                yield _AsyncHttpxResponse(response)
        except self._error as error:
            raise LostError from error

    async def close(self) -> None:
        """Close the library's client, unless the caller made it."""
        if self._own:
            await self._client.aclose()


class Aiohttp:
    """Sends requests with aiohttp."""

    def __init__(self, session: aiohttp.ClientSession | None, timeout: float) -> None:
        import aiohttp

        self._own = session is None
        self._session = session
        self._new_session = aiohttp.ClientSession
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=timeout)
        self._errors = (aiohttp.ClientError, TimeoutError, ConnectionError)

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncGenerator[AsyncResponse, None]:
        """Send a request; raises LostError, also from the block."""
        if self._session is None:
            # A session belongs to the event loop on which it is made.
            self._session = self._new_session()
        try:
            async with self._session.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                json=request.json,
                timeout=self._timeout,
            ) as response:
                yield _AiohttpResponse(response)
        except self._errors as error:
            raise LostError from error

    async def close(self) -> None:
        """Close the library's session, unless the caller made it."""
        if self._own and self._session is not None:
            await self._session.close()


def async_http(http: object, timeout: float) -> AsyncHttp:
    """Return the library of a client or session; without one httpx, or else aiohttp."""
    kind = type(http).__module__.split(".")[0]
    for base in type(http).__mro__:
        kind = base.__module__.split(".")[0]
        if kind in ("httpx", "aiohttp"):
            break
    if http is None:
        try:
            return AsyncHttpx(None, timeout)
        except ModuleNotFoundError:
            pass
        try:
            return Aiohttp(None, timeout)
        except ModuleNotFoundError as error:
            message = "ragwire.AsyncClient needs httpx or aiohttp: pip install 'ragwire[httpx]'"
            raise ModuleNotFoundError(message) from error
    known: Any = http
    if kind == "httpx":
        return AsyncHttpx(known, timeout)
    if kind == "aiohttp":
        return Aiohttp(known, timeout)
    raise TypeError(f"http must be an httpx.AsyncClient or an aiohttp.ClientSession, not {type(http).__name__}")
