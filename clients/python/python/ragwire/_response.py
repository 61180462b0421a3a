"""The response of a turn, for routes of your own."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

from ragwire._exchange import serve
from ragwire._ragwire import Exchange
from ragwire._types import Receive, Scope, Send

__all__ = ["Response", "make"]


class Response:
    """The streaming response of a turn: an ASGI app for one request.

    Where Starlette is imported, it is also a `starlette.responses.Response`, so that a route of
    FastAPI can return it.

    Attributes:
        status_code: The HTTP status.
        raw_headers: The headers, as ASGI has them.
        background: Awaited after the last byte.
    """

    status_code: int
    raw_headers: list[tuple[bytes, bytes]]
    background: Callable[[], Awaitable[None]] | None

    def __init__(self, exchange: Exchange) -> None:
        # The response exists already, so its head is ready.
        self.status_code, self.raw_headers = exchange.head() or (500, [])
        self.background = None
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response while the turn runs."""
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        await serve(self._exchange, receive, send, started=True)
        if self.background is not None:
            await self.background()


_starlette: type[Response] | None = None


def make(exchange: Exchange) -> Response:
    """Creates the response, as Starlette's own class if an application imports Starlette."""
    global _starlette
    if _starlette is None and "starlette.responses" in sys.modules:
        base: Any = sys.modules["starlette.responses"].Response
        members: dict[str, Any] = {
            "__init__": Response.__init__,
            "__call__": Response.__call__,
            "__doc__": Response.__doc__,
            "body": b"",
            "charset": "utf-8",
            "media_type": None,
        }
        _starlette = cast("type[Response]", type("Response", (base, Response), members))
    return (_starlette or Response)(exchange)
