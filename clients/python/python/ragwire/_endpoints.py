"""Every chat protocol for an orchestrator in Python, as an ASGI app."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import ipaddress
import json
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Literal, cast
from urllib.parse import quote

from ragwire import _ragwire
from ragwire._errors import OptionError, Refusal
from ragwire._exchange import serve
from ragwire._granian import ends_turns
from ragwire._observer import Observer
from ragwire._orchestrator import Answer, adapt
from ragwire._ragwire import Exchange, Journal, Service, Sessions, TurnGroup
from ragwire._types import Receive, Scope, Send
from ragwire._websocket import serve_websocket

__all__ = ["Endpoints", "owner_header"]

logger = logging.getLogger("ragwire")

Owner = Callable[[Scope], "str | None"] | Callable[[Scope], Awaitable["str | None"]]
"""Determines the owner of a request from its ASGI scope; `None` is an anonymous owner."""

Protocol = Literal[
    "rag",
    "turns",
    "ai_sdk",
    "ag_ui",
    "openai",
    "responses",
    "ollama",
    "forge",
    "session_chat",
    "eve",
    "langgraph",
    "mcp",
    "trustgraph",
]
"""The name of a protocol."""

# The longest name of an owner, in bytes, that the endpoints accept.
_MAX_OWNER_BYTES = 1024


# Options that are lists of strings.
_LISTS = ("protocols", "pass_headers", "openai_parameters", "allow_origins", "allow_hosts")

# Options that may still have to be opened or connected.
_STORES = ("journal", "sessions", "records")


class Endpoints:
    """Serves an orchestrator in every protocol, as an ASGI app.

    ```python
    app = FastAPI()
    app.mount("/", ragwire.Endpoints(answer))
    ```

    Turns and sessions are stored in memory by default, and all requests are anonymous. Use
    `prefix` instead of a mount path if links in responses have to work.

    One `Endpoints` may serve several event loops. A mounted app gets no lifespan events: use
    `lifespan` of this class so that turns end with their terminal when the server shuts down.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        journal: Journal | Awaitable[Journal] | None = None,
        sessions: Sessions | Awaitable[Sessions] | None = None,
        records: Sessions | Awaitable[Sessions] | None = None,
        turns: TurnGroup | None = None,
        owner: Owner | None = None,
        protocols: Iterable[Protocol | str] | None = None,
        prefix: str = "",
        name: str = "ragwire",
        mode: str = "hybrid",
        pass_headers: Iterable[str] = (),
        attachments: bool = False,
        structured_results: bool = False,
        openai_parameters: Iterable[str] = (),
        allow_origins: Iterable[str] = (),
        allow_hosts: Iterable[str] = (),
        list_anonymous: bool = False,
        observer: Observer | None = None,
        disconnect_grace: float = 30.0,
        max_question_bytes: int = 8 << 10,
        body_timeout: float = 30.0,
        min_body_rate: int = 1 << 10,
        max_body_memory: int = 128 << 20,
        client_share: int = 50,
        max_attachment_bytes: int = 8 << 20,
        max_sockets: int = 900,
        pad_to: int = 0,
        keep_alive: float | None = 15.0,
        idle: float | None = 120.0,
        total: float | None = 600.0,
        write_stall: float | None = 30.0,
    ) -> None:
        """Creates the endpoints. Nothing connects and no thread starts before the first request.

        Args:
            answer: An async function of a question and a sink that returns `Metadata` or `None`; a
                function, which runs in a thread; or a generator of a question, async or not, which
                yields strings, `Event`s and at last `Metadata`.
            journal: The record of turns, from which they are resumed, stopped and answered.
                Default: in memory. `Journal.redis(url)` is connected with the first request.
            sessions: The store of conversations. Default: in memory.
            records: The store of the finished turns of those conversations, which a page reads to
                show them again: a separate store, with the limits of `record_limits`. Default: in
                memory.
            turns: Limits how many turns run and wait. Default: 64 of each. A group of your own
                needs `max_per_owner=1`: that answers one question of a session at a time.
            owner: Determines the owner of a request from its ASGI scope: a name of at most 1,024
                bytes, or `None`. It may be async, and it refuses a request by raising `Refusal` or
                the `HTTPException` of FastAPI. Only the owner can read, stop and continue turns and
                sessions. `starlette.requests.HTTPConnection(scope)` reads headers and cookies.
            protocols: Their names; `ragwire.PROTOCOLS` has all. Default: all.
            prefix: A path in front of every route, such as `/rag`.
            name: The name of the only model and agent, which the SDKs of OpenAI name in `model`.
            mode: How answers are retrieved, for the metadata on the routes of ADR 0007.
            pass_headers: Names of headers that the orchestrator gets, in `Question.headers`.
            attachments: Passes files to the orchestrator, in `Question.attachments`. Without it they
                are refused with 422.
            structured_results: Passes the JSON schema for an answer to the orchestrator, in
                `Question.output_schema`. Without it such requests are refused.
            openai_parameters: Parameters of OpenAI's requests that the orchestrator honours, such as
                `temperature`; they are in `Question.extra`. Others that would change the answer are
                refused with 400.
            allow_origins: Origins whose pages may use MCP and the WebSocket of TrustGraph, such as
                `https://app.example`; `*` for any. Other routes leave CORS to a middleware.
            allow_hosts: Host names of this server, without a port, whose own pages may use MCP.
            list_anonymous: Lets anonymous callers list the sessions of all anonymous callers. Only
                for a server with one user.
            observer: A function that gets the `FinishedTurn` of each turn after its end, for metrics.
                It is called on the event loop, so it must not block.
            disconnect_grace: How many seconds a turn continues without readers if its client can
                reconnect. 0 stops it at once.
            max_question_bytes: The longest question, in bytes of UTF-8.
            body_timeout: For how many seconds a client may be silent while it sends a body.
            min_body_rate: How fast a body must arrive, in bytes per second, beyond `body_timeout`.
            max_body_memory: The memory for all bodies that are being read, in bytes.
            client_share: What one client may use of that memory, of the running turns and of the
                waiting list, in percent. A client is an owner or, without one, an address: behind a
                proxy, let the server read it from the proxy's headers. A group of your own in
                `turns` has limits of its own.
            max_attachment_bytes: How many bytes more a request with files may have.
            max_sockets: The maximum number of open WebSockets.
            pad_to: What the pieces of a stream are padded to, in bytes, so that their sizes do not
                reveal the texts; at most 4,096, and 0 for no padding. The last piece, the logs of Eve's
                sessions, the WebSocket and the wires of Ollama and TrustGraph are not padded.
            keep_alive: After how many seconds of silence a filler is sent; `None` for never.
            idle: For how many seconds the orchestrator may be silent; `None` for any time.
            total: For how many seconds a turn may run; `None` for any time.
            write_stall: For how many seconds data may wait for the reader; `None` for any time.

        Raises:
            OptionError: An option has an invalid value.
            TypeError: `answer` cannot be called with a question and a sink.
        """
        self._run = adapt(answer)
        self._owner = owner
        self._prefix = "/" + prefix.strip("/") if prefix.strip("/") else ""
        options: dict[str, Any] = {
            "journal": journal,
            "sessions": sessions,
            "records": records,
            "turns": turns,
            "protocols": protocols,
            "prefix": prefix,
            "name": name,
            "mode": mode,
            "pass_headers": pass_headers,
            "attachments": attachments,
            "structured_results": structured_results,
            "openai_parameters": openai_parameters,
            "allow_origins": allow_origins,
            "allow_hosts": allow_hosts,
            "list_anonymous": list_anonymous,
            "observer": observer,
            "disconnect_grace": disconnect_grace,
            "max_question_bytes": max_question_bytes,
            "body_timeout": body_timeout,
            "min_body_rate": min_body_rate,
            "max_body_memory": max_body_memory,
            "client_share": client_share,
            "max_attachment_bytes": max_attachment_bytes,
            "max_sockets": max_sockets,
            "pad_to": pad_to,
            "keep_alive": keep_alive,
            "idle": idle,
            "total": total,
            "write_stall": write_stall,
        }
        for option in _LISTS:
            value = options[option]
            if isinstance(value, str):
                raise OptionError(f"{option} must be a list of str, not a str: [{value!r}]")
            if value is not None:
                options[option] = list(cast("Iterable[object]", value))
        if owner is not None and not callable(owner):
            raise OptionError(f"owner must be a function of an ASGI scope, not {type(owner).__name__}")
        self._options = options
        self._service: Service | None = None
        self._building: asyncio.Future[Service] | None = None
        if any(inspect.isawaitable(options[store]) for store in _STORES):
            # Reports a mistake now instead of with the first request.
            Service(self._run, self._without_stores())
        else:
            self._service = Service(self._run, options)

    def _without_stores(self) -> dict[str, Any]:
        return {**self._options, **dict.fromkeys(_STORES)}

    async def _built(self) -> Service:
        """Connects the journal and the sessions, once."""
        if self._service is not None:
            return self._service
        if self._building is None:
            self._building = asyncio.ensure_future(self._build())
        building = self._building
        try:
            return await asyncio.shield(building)
        except BaseException:
            if building.done() and self._building is building:
                self._building = None
            raise

    async def _build(self) -> Service:
        options = dict(self._options)
        for name in _STORES:
            if inspect.isawaitable(options[name]):
                # Stored at once, because a coroutine is awaited only once.
                self._options[name] = options[name] = await options[name]
        self._service = Service(self._run, options)
        return self._service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one connection of an ASGI server."""
        kind = scope["type"]
        if kind == "http" or kind == "websocket":
            service = self._service
            if service is None:
                service = await self._built()
            owner = await self._owner_of(scope)
            if kind == "websocket":
                opening = service.websocket(self._target(scope), scope["headers"], owner, _peer(scope))
                await serve_websocket(opening, scope, receive, send)
            else:
                await self._serve(service, owner, scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        else:
            raise RuntimeError(f"ragwire.Endpoints does not serve ASGI scopes of type {kind!r}")

    async def _serve(
        self, service: Service, owner: str | Refusal | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        variables = contextvars.copy_context()
        exchange: Exchange = service.exchange(
            scope["method"], self._target(scope), scope["headers"], owner, _peer(scope), variables
        )
        message = await receive()
        if message["type"] == "http.disconnect":
            exchange.close()
            return
        more = message.get("more_body", False)
        exchange.feed(message.get("body", b""), more)
        await serve(exchange, receive, send, more)

    def _target(self, scope: Scope) -> str:
        """Returns the request target, relative to the path at which the app is mounted."""
        path: str = scope["path"]
        root: str = scope.get("root_path", "")
        if root and not (self._prefix and path.startswith(self._prefix)):
            if path == root or path.startswith(root + "/"):
                path = path[len(root) :]
        target = quote(path, safe="/:@!$&'()*+,;=-._~") or "/"
        query: bytes = scope.get("query_string", b"")
        return f"{target}?{query.decode('latin-1')}" if query else target

    async def _owner_of(self, scope: Scope) -> str | Refusal | None:
        if self._owner is None:
            return None
        try:
            owner = self._owner(scope)
            if inspect.isawaitable(owner):
                owner = await owner
            if owner is not None and not isinstance(owner, str):
                raise TypeError(f"an owner is a string or None, not {type(owner).__name__}")
            return owner
        except Refusal as refusal:
            return refusal
        except Exception as error:
            refused = _http_exception(error)
            if refused is not None:
                return refused
            logger.exception("the owner of a request is unknown")
            return Refusal(500, "internal", "The server failed. Please retry.", recoverable=True)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._built()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        with ends_turns(self.shut_down):
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await self._end()
        await send({"type": "lifespan.shutdown.complete"})

    async def _end(self) -> None:
        await self.shut_down()
        # The next lifespan begins from scratch, as with each `TestClient` of a test suite.
        self._service = None

    async def shut_down(self) -> None:
        """Refuses new questions, ends the running turns with a failure, and waits for them."""
        if self._service is not None:
            self._service.shut_down()
            await self._service.drained()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Connects, and shuts down at the end: `FastAPI(lifespan=endpoints.lifespan)`.

        Args:
            app: The application, which FastAPI passes; it is not used.

        Raises:
            RedisError: The journal or the sessions cannot be used.
            SessionError: The sessions cannot be used.
        """
        await self._built()
        try:
            with ends_turns(self.shut_down):
                yield
        finally:
            await self._end()

    @staticmethod
    def record_limits(
        *, max_sessions: int = 1000, max_messages: int = 50, max_bytes: int = 64 << 10, max_age: float = 86400.0
    ) -> dict[str, Any]:
        """Returns the options of the store for `records`: `Sessions.open(path, **Endpoints.record_limits())`.

        Args:
            max_sessions: As for the store of the conversations.
            max_messages: As for the store of the conversations.
            max_bytes: As for the store of the conversations, in bytes.
            max_age: As for the store of the conversations, in seconds.
        """
        return _ragwire.record_limits(
            {"max_sessions": max_sessions, "max_messages": max_messages, "max_bytes": max_bytes, "max_age": max_age}
        )

    @staticmethod
    def max_state_bytes(max_question_bytes: int) -> int:
        """Returns the `max_state_bytes` that `sessions` need with longer questions than by default, in bytes.

        Args:
            max_question_bytes: The option of the endpoints, in bytes.
        """
        return _ragwire.max_state_bytes(max_question_bytes)

    def openapi(self) -> dict[str, Any]:
        """Returns the OpenAPI document of the routes."""
        service = self._service or Service(self._run, self._without_stores())
        return cast("dict[str, Any]", json.loads(service.openapi()))


def _http_exception(error: Exception) -> Refusal | None:
    """Returns the refusal that an `HTTPException` of Starlette or FastAPI means."""
    starlette: Any = sys.modules.get("starlette.exceptions")
    if starlette is None or not isinstance(error, starlette.HTTPException):
        return None
    http: Any = error
    code = "unauthorized" if http.status_code == 401 else f"http_{http.status_code}"
    return Refusal(http.status_code, code, str(http.detail), recoverable=http.status_code >= 500)


def _peer(scope: Scope) -> str | None:
    """Returns the name of the other end of the connection, by which limits per client count.

    One host often has all addresses of an IPv6 network of 64 bits, and on loopback every client has
    the same address, so that its port distinguishes it.
    """
    client = scope.get("client")
    if not client or not client[0]:
        return None
    host, port = client
    if host == "127.0.0.1" or host == "::1":
        return f"{host} {port}"
    if ":" not in host:
        return cast("str", host)
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return cast("str", host)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))


def owner_header(name: str) -> Callable[[Scope], str]:
    """Returns a function that takes the owner from a header, for `Endpoints(owner=…)`.

    It refuses a request with 401 if the header is missing, empty, not UTF-8, longer than 1,024
    bytes, or present twice. Only use a header that a proxy in front of the server sets.

    Args:
        name: The name of the header, such as `x-user`.
    """
    key = name.lower().encode("ascii")

    def owner(scope: Scope) -> str:
        values = [value for header, value in scope["headers"] if header.lower() == key]
        try:
            (value,) = values
            text = cast("bytes", value).decode().strip()
        except ValueError:
            text = ""
        if not 0 < len(text.encode()) <= _MAX_OWNER_BYTES:
            raise Refusal(401, "unauthorized", f"The request needs exactly one valid header {name}.")
        return text

    return owner


PROTOCOLS: tuple[str, ...] = tuple(_ragwire.protocol_names())
"""The names of all protocols."""
