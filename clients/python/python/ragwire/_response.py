"""The response of a turn, for routes of your own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ragwire._errors import Rejected
from ragwire._exchange import serve
from ragwire._ragwire import Exchange
from ragwire._types import Receive, Scope, Send

# FastAPI and Starlette only send a response of this class. Without them it is a plain ASGI app.
if TYPE_CHECKING:
    from starlette.background import BackgroundTask
    from starlette.responses import Response as _Response
else:
    try:
        from starlette.responses import Response as _Response
    except ImportError:
        _Response = object

__all__ = ["Rejection", "Response", "Stream"]


class Response(_Response):
    """A response of ragwire: the stream of a turn, or its rejection. An ASGI app for one request.

    Where Starlette is installed, it is a `starlette.responses.Response`, so that a route of FastAPI
    can return it and add headers: `response.headers["x-a"] = "b"`.

    Attributes:
        status_code: The HTTP status.
        raw_headers: The headers, as ASGI has them.
        background: Awaited after the last byte; a `BackgroundTask` of Starlette.
        body: The body of a rejection; empty for a stream, which is sent as it is made.
    """

    status_code: int
    raw_headers: list[tuple[bytes, bytes]]
    background: BackgroundTask | None
    body: bytes | memoryview = b""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Only `Turn.response` and `Rejected.response` create it.

        Args:
            status: The HTTP status.
            headers: The headers, as ASGI has them.
        """
        # Not `super().__init__`, which would render a body.
        self.status_code, self.raw_headers = status, headers
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await self._send_body(receive, send)
        if self.background is not None:
            await self.background()

    async def _send_body(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class Stream(Response):
    """The response of a turn that has begun."""

    def __init__(self, exchange: Exchange) -> None:
        # The response exists already, so its head is ready.
        super().__init__(*(exchange.head() or (500, [])))
        self._exchange = exchange

    async def _send_body(self, receive: Receive, send: Send) -> None:
        await serve(self._exchange, receive, send, started=True)


class Rejection(Response):
    """The response of a turn that was rejected."""

    def __init__(self, rejected: Rejected) -> None:
        self.body = json.dumps(rejected.body(), ensure_ascii=False).encode()
        headers = {"content-type": "application/json", "cache-control": "no-store", "content-length": str(len(self.body))}
        if rejected.retry_after is not None:
            headers["retry-after"] = str(max(1, int(rejected.retry_after)))
        super().__init__(rejected.status, [(name.encode(), value.encode()) for name, value in headers.items()])
