"""A server of one turn that damages its connections, for the clients' tests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

TURN = "turn-1"
FRAMES: list[dict[str, Any]] = [
    {"event": "search", "tool": "bm25"},
    *({"text": f"{n} "} for n in range(20)),
    {"event": "acme.step", "data": {"n": 1}},
    {"text": "Done."},
    {"end": "completed", "metadata": {"citations": [], "tools_used": ["bm25"]}},
]
ERROR = {"code": "busy", "message": "Full.", "recoverable": True}


class TurnServer:
    """Answers with the frames of a turn, from the requested one on.

    `cuts` has for each connection the number of bytes of the body after which it breaks; `statuses`
    has for each request a status with which it is refused, or None.
    """

    def __init__(self, cuts: list[int], statuses: list[int | None], *, keeps_turns: bool, first: int) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self._cuts, self._statuses = iter(cuts), iter(statuses)
        self._keeps_turns, self._first = keeps_turns, first

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests.append((method, path, headers, body))
            await self._respond(path, headers, writer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def _respond(self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        status = next(self._statuses, None)
        if status is not None:
            error = json.dumps({"error": ERROR}).encode() if status < 600 else b""
            extra = "retry-after: 0\r\n" if status == 503 else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{extra}connection: close\r\ncontent-length: {len(error)}\r\n\r\n".encode() + error)
            return await writer.drain()
        if path.endswith(("/stop", "/answer")):
            body = json.dumps({"stopped": True, "accepted": False}).encode()
            writer.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            return await writer.drain()
        start = int(path.partition("from=")[2] or 0)
        if start >= len(FRAMES):
            writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
            return await writer.drain()
        is_sse = headers["accept"] == "text/event-stream"
        body = b""
        for index in range(max(start, self._first), len(FRAMES)):
            frame = FRAMES[index]
            if index == self._first > start:
                frame = {"snapshot": {"events": FRAMES[:1], "text": "0 1 "}}
            line = json.dumps(frame if is_sse else {"index": index, **frame})
            kind = next(iter(frame)) if "event" not in frame else frame["event"]
            body += f"id: {index}\nevent: {kind}\ndata: {line}\n\n".encode() if is_sse else line.encode() + b"\n"
        cut = next(self._cuts, len(body))
        turn = f"x-ragwire-turn: {TURN}\r\n" if self._keeps_turns else ""
        writer.write(f"HTTP/1.1 200 OK\r\n{turn}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        writer.write(body[:cut])
        await writer.drain()


@contextmanager
def turn_server(
    cuts: list[int] = [], statuses: list[int | None] = [], *, keeps_turns: bool = True, first: int = 0
) -> Iterator[TurnServer]:
    """Run a server on a thread of its own. Frames before `first` are only left in a snapshot."""
    server = TurnServer(cuts, statuses, keeps_turns=keeps_turns, first=first)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    starting = asyncio.run_coroutine_threadsafe(asyncio.start_server(server.serve, "127.0.0.1", 0), loop)
    listener = starting.result()
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(listener.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
