"""The service of ADR 0007: evidence with live events, then an answer, then the citations.

    uvicorn evidence:app
    curl -N localhost:8000/v1/rag/sessions/s/messages/stream \
        -H 'content-type: application/json' -d '{"prompt": "When does the response begin?"}'

An exception in `collect_evidence` before its first event is a JSON 500. After it, the stream ends
with the fallback message and `tools_used` `["chat_failed"]`. No queue and no sentinel is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import ragwire
from fastapi import FastAPI

EventSink = Callable[..., Awaitable[None]]

DOCUMENTS = {
    "adr-0007#1": "Headers wait for the first event. Until then a failure is a status.",
    "adr-0007#2": "After the first event, a failure completes the stream with a fallback message.",
    "adr-0007#3": "Every stream ends with a trailer, which names the citations and the tools.",
}


@dataclass
class Evidence:
    """What was retrieved."""

    citations: list[dict[str, object]] = field(default_factory=list)
    tools_used: list[str] = field(default_factory=list)
    events: list[dict[str, object]] = field(default_factory=list)


def words(text: str) -> set[str]:
    return {word.strip(".,?").lower() for word in text.split()}


async def collect_evidence(prompt: str, event_sink: EventSink | None = None) -> Evidence:
    """Search until the review approves; each step is collected, and reported while it happens."""
    evidence = Evidence()

    async def emit(name: str, **members: object) -> None:
        evidence.events.append({"event": name, **members})
        if event_sink is not None:
            await event_sink(name, **members)

    for iteration, tool in enumerate(["bm25_search", "read_document"], start=1):
        await emit("search", tool=tool, query=prompt)
        await asyncio.sleep(0.01)  # your search
        if "fail" in words(prompt):
            raise RuntimeError("the index is damaged at /var/lib/index")  # never reaches the client
        evidence.tools_used.append(tool)
        evidence.citations = [
            {"document_id": "adr-0007", "chunk_id": id, "supporting_quote": text, "source_tool": tool}
            for id, text in DOCUMENTS.items()
            if len(words(text) & words(prompt)) >= 3 - iteration
        ]
        verdict = "approved" if evidence.citations else "rejected"
        await emit("review", iteration=iteration, verdict=verdict)
        if evidence.citations:
            break
    return evidence


async def generate(evidence: Evidence) -> AsyncIterator[str]:
    """Yield the tokens of the answer."""
    if not evidence.citations:
        yield "The documents do not say."
    for number, citation in enumerate(evidence.citations, start=1):
        for token in str(citation["supporting_quote"]).split(" "):
            await asyncio.sleep(0)  # your model
            yield token + " "
        yield f"[{number}] "


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    """Answer a question; `Endpoints` calls it for every protocol."""
    if question.prompt == "reject":
        raise RuntimeError("no index")  # nothing was sent: a JSON 500
    evidence = await collect_evidence(question.prompt, sink.event)
    async for token in generate(evidence):
        await sink.text(token)
    return ragwire.Metadata(citations=evidence.citations, tools_used=evidence.tools_used)


app = FastAPI()
app.mount("/", ragwire.Endpoints(answer))
