"""Answers one turn through ASGI, with the installed wheel and nothing else: for the release workflow."""

import asyncio
import json
import sys

import ragwire


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    await sink.event("search", tool="bm25", query=question.prompt)
    await sink.text("Forty-two.")
    return ragwire.Metadata(tools_used=["bm25"])


async def main() -> None:
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/turns",
        "headers": [(b"accept", b"application/x-ndjson"), (b"content-type", b"application/json")],
    }
    requests = [{"type": "http.request", "body": b'{"prompt": "why?"}'}]
    body = b""

    async def receive() -> dict[str, object]:
        return requests.pop() if requests else await asyncio.Future()

    async def send(message: dict[str, object]) -> None:
        nonlocal body
        part = message.get("body", b"")
        assert isinstance(part, bytes)
        body += part

    await ragwire.Endpoints(answer)(scope, receive, send)  # type: ignore[arg-type]
    search, text, end = (json.loads(line) for line in body.splitlines())
    assert (search["event"], text["text"], end["end"]) == ("search", "Forty-two.", "completed"), body
    print(f"ragwire {ragwire.__version__} answers on Python {sys.version.split()[0]}")


asyncio.run(main())
