"""An application as a type checker sees it: only the lines that end with `# wrong` have errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import ragwire
from fastapi import FastAPI, Response
from ragwire.events import SearchEvent

app = FastAPI()


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    await sink.event("search", tool="bm25", query=question.prompt)
    await sink.event("progress", {"done": 1})
    verdict: str = await sink.ask("Delete?", kind="approval", options=["Yes", "No"])
    await sink.text(verdict)
    return ragwire.Metadata(tools_used=["bm25"], request="r-1")


def in_thread(question: ragwire.Question, sink: ragwire.Sink) -> None:
    sink.text(question.history[0]["text"])


async def generator(question: ragwire.Question) -> AsyncIterator[str | ragwire.Event]:
    yield ragwire.Event("search", tool="bm25")
    yield question.prompt


def plain_generator(question: ragwire.Question) -> Iterator[str | ragwire.Metadata]:
    yield question.prompt
    yield ragwire.Metadata(mode="direct")


class Rag:
    async def __call__(self, question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(question.prompt)

    async def answer(self, question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata | None:
        return None


def owner(scope: Any) -> str | None:
    return None


protocols = ["ai_sdk", "turns"]
ragwire.Endpoints(answer, protocols=protocols, owner=owner)
ragwire.Endpoints(in_thread, journal=ragwire.Journal(keep=60), protocols=["mcp"])
ragwire.Endpoints(generator, sessions=ragwire.Sessions.open("sessions"))
ragwire.Endpoints(plain_generator, owner=ragwire.owner_header("x-user"))
ragwire.Endpoints(Rag())
ragwire.Endpoints(Rag().answer, journal=ragwire.Journal.redis("redis://localhost"))


@app.post("/chat")
async def chat(prompt: str) -> Response:
    turn = await ragwire.Turn.start(answer, prompt, on_disconnect="run_to_end").commit()
    response = turn.response("ai_sdk")
    response.headers["x-app"] = "acme"
    return response


async def read(client: ragwire.AsyncClient) -> str:
    text = ""
    async for item in client.ask("why?", history=[{"role": "user", "text": "Hello."}], effort="low"):
        match item:
            case ragwire.TextItem(piece):
                text += piece
            case ragwire.EventItem(event) if event["event"] == "search":
                search: SearchEvent = event
                text += search["tool"]
            case ragwire.EndItem(status, metadata):
                text += status + metadata["citations"][0]["chunk_id"]
            case _:
                pass
    return text


async def mistakes(question: ragwire.Question, sink: ragwire.Sink) -> str:
    await sink.event("search", toool="bm25")  # wrong
    await sink.event("review", iteration=1, verdict="maybe")  # wrong
    await sink.text(None)  # wrong
    ragwire.Turn.start(answer, question, idel=5)  # wrong
    ragwire.Turn.start(answer, question).commit().response("sse")  # wrong
    ragwire.Endpoints(answer, idle="5")  # wrong
    ragwire.TurnGroup(max_activ=5)  # wrong
    ragwire.Question("why?", effort="much")  # wrong
    return "the answer"


ragwire.Endpoints(mistakes)  # wrong
