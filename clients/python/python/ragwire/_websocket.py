"""Moves the messages of a WebSocket between Rust and an ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ragwire._ragwire import WebSocket
from ragwire._types import Receive, Scope, Send

__all__ = ["serve_websocket"]

# The client may not use the socket (RFC 6455, 7.4.1), for servers that cannot send a response.
POLICY_VIOLATION = 1008


Opening = Awaitable[WebSocket | tuple[int, list[tuple[bytes, bytes]], bytes]]


async def serve_websocket(opening: Opening, scope: Scope, receive: Receive, send: Send) -> None:
    """Serves one WebSocket from its handshake to its end."""
    if (await receive())["type"] != "websocket.connect":
        return
    opened = await opening
    if isinstance(opened, tuple):
        status, headers, body = opened
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": ""})
            return
        start = {"type": "websocket.http.response.start", "status": status, "headers": headers}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
        return
    await send({"type": "websocket.accept"})
    # Dropping the socket at the end of this function cancels its turns.
    outgoing = asyncio.ensure_future(_send_all(opened, send))
    try:
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            await opened.send(message["bytes"] if text is None else text)
    except OSError:
        # The gateway has closed the socket, and `outgoing` reports why.
        await outgoing
    finally:
        outgoing.cancel()


async def _send_all(socket: WebSocket, send: Send) -> None:
    while True:
        message = await socket.receive()
        if isinstance(message, str):
            await send({"type": "websocket.send", "text": message})
        elif isinstance(message, bytes):
            await send({"type": "websocket.send", "bytes": message})
        else:
            code, reason = message
            await send({"type": "websocket.close", "code": code, "reason": reason})
            return
