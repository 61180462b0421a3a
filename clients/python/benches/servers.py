"""The servers that are compared: the same turn, made by the same producer.

`uvicorn servers:NAME`. PACE is the pause before each item in seconds; without it the producer never
waits, as a model that is faster than the network. Each item carries the time at which it was made
if STAMPS is set.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

import ragwire
from fastapi import FastAPI
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from workload import CITATIONS, EVENTS, METADATA, TEXTS, TOOLS, dumps

PACE = float(os.environ.get("PACE", "0"))
STAMPS = "STAMPS" in os.environ
CAPACITY = 64
"""Items in a queue; that of a ragwire turn."""

Put = Callable[[Any], Awaitable[None]]


def stamp(text: str) -> str:
    return f"{time.monotonic_ns()};" if STAMPS else text


def timestamp() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def produce(event: Put, text: Put) -> None:
    """Make the items of the turn."""
    for members in EVENTS:
        if PACE:
            await asyncio.sleep(PACE)
        await event(members)
    for piece in TEXTS:
        if PACE:
            await asyncio.sleep(PACE)
        await text(stamp(piece))


# ---- ragwire ----


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    for members in EVENTS:
        if PACE:
            await asyncio.sleep(PACE)
        await sink.event(members["event"], **{name: value for name, value in members.items() if name != "event"})
    for piece in TEXTS:
        if PACE:
            await asyncio.sleep(PACE)
        await sink.text(stamp(piece))
    return ragwire.Metadata(citations=CITATIONS, mode="hybrid", tools_used=TOOLS)


async def framed_response(request: Request) -> Any:
    turn = await ragwire.Turn.start(answer, "q").commit()
    return turn.response("framed")


async def ragwire_sse_response(request: Request) -> Any:
    turn = await ragwire.Turn.start(answer, "q").commit()
    return turn.response("sse")


ragwire_framed = Starlette(routes=[Route("/", framed_response, methods=["POST"])])
ragwire_sse = Starlette(routes=[Route("/", ragwire_sse_response, methods=["POST"])])
ragwire_journal = ragwire.Endpoints(answer, turns=ragwire.TurnGroup(max_active=100_000, max_per_owner=1))
"""POST /v1/turns: with the journal in memory, which the endpoints always have."""


# ---- Starlette with asyncio.Queue, as ADR 0007 describes it ----

END = object()


async def items() -> AsyncIterator[tuple[str, Any]]:
    """Pass the items through a queue; the last one is the sentinel."""
    queue: asyncio.Queue[Any] = asyncio.Queue(CAPACITY)

    async def run() -> None:
        await produce(lambda members: queue.put(("event", members)), lambda text: queue.put(("text", text)))
        await queue.put(END)

    task = asyncio.create_task(run())
    try:
        while (item := await queue.get()) is not END:
            yield item
    finally:
        task.cancel()


async def starlette_stream() -> AsyncIterator[bytes]:
    is_text = False
    async for kind, value in items():
        if kind == "event":
            yield (dumps({**value, "timestamp": timestamp()}) + "\n").encode()
        else:
            yield value.encode() if is_text else b"\x1d" + value.encode()
            is_text = True
    yield b"\x1e" + dumps(METADATA).encode()


async def sse_stream() -> AsyncIterator[dict[str, str]]:
    index = 0
    async for kind, value in items():
        if kind == "event":
            data = {**value, "timestamp": timestamp()}
            yield {"id": str(index), "event": value["event"], "data": dumps(data)}
        else:
            yield {"id": str(index), "event": "text", "data": dumps({"text": value})}
        index += 1
    yield {"id": str(index), "event": "end", "data": dumps({"end": "completed", "metadata": METADATA})}


async def starlette_response(request: Request) -> Response:
    return StreamingResponse(starlette_stream(), media_type="text/plain; charset=utf-8")


async def sse_response(request: Request) -> Response:
    return EventSourceResponse(sse_stream())


starlette = Starlette(routes=[Route("/", starlette_response, methods=["POST"])])
sse_starlette = Starlette(routes=[Route("/", sse_response, methods=["POST"])])
fastapi = FastAPI()


@fastapi.post("/")
async def fastapi_response() -> StreamingResponse:
    return StreamingResponse(starlette_stream(), media_type="text/plain; charset=utf-8")
