"""Moves one response from Rust to an ASGI server."""

from __future__ import annotations

import asyncio

from ragwire._ragwire import Exchange
from ragwire._types import Receive, Send

__all__ = ["disconnected", "serve"]


async def disconnected(exchange: Exchange, receive: Receive, more: bool) -> None:
    """Reads the rest of a request's body, and drops the response when the client disconnects."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            exchange.close()
            return
        if more:
            more = message.get("more_body", False)
            exchange.feed(message.get("body", b""), more)
            await exchange.taken()


async def serve(
    exchange: Exchange, receive: Receive, send: Send, more: bool = False, started: bool = False
) -> None:
    """Sends the response while it is made: everything that is ready is one message.

    Args:
        more: Whether more of the request's body follows.
        started: Whether the head was sent.
    """
    # Nothing else notices a client that disconnects while the turn is silent.
    watch = asyncio.ensure_future(disconnected(exchange, receive, more))
    try:
        try:
            await (_send_rest if started else _send_all)(exchange, send)
        except asyncio.CancelledError:
            # The server shuts down: the client still gets the terminal of its turn.
            if exchange.shut_down():
                await _send_rest(exchange, send)
            raise
    except OSError:
        # Servers raise it for a client that has disconnected.
        pass
    finally:
        exchange.close()
        watch.cancel()


async def _send_all(exchange: Exchange, send: Send) -> None:
    while (head := exchange.head()) is None:
        if (waiting := exchange.wait()) is not None:
            await waiting
        if exchange.is_finished:
            return
    status, headers = head
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await _send_rest(exchange, send)


async def _send_rest(exchange: Exchange, send: Send) -> None:
    more = True
    while more:
        while (chunk := exchange.chunk()) is None:
            if (waiting := exchange.wait()) is not None:
                await waiting
        body, more = chunk
        await send({"type": "http.response.body", "body": body, "more_body": more})
