"""`ragwire.openai` with the real package and a double of the server on a local socket."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
import ragwire
import ragwire.openai
from fastapi import FastAPI
from serving import Shown, ask, served
from starlette.responses import StreamingResponse

BASE = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}


def chunk(delta: Any, finish: str | None = None) -> dict[str, Any]:
    return {**BASE, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(**function: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": function}]}


CHAT = [
    chunk({"role": "assistant", "reasoning_content": "Hm."}),
    chunk({"content": "Forty"}),
    chunk({"content": "-two."}),
    chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "bm25"}}]}),
    chunk(call(arguments='{"query": ')),
    chunk(call(arguments='"rule"}')),
    chunk({}, "tool_calls"),
    {**BASE, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}},
]
CALL: dict[str, Any] = {
    "type": "function_call",
    "id": "i2",
    "call_id": "c1",
    "name": "bm25",
    "arguments": '{"query": "rule"}',
    "status": "completed",
}
RESPONSE: dict[str, Any] = {"id": "r1", "object": "response", "created_at": 1, "model": "scripted", "output": []}
USAGE: dict[str, Any] = {
    "input_tokens": 3,
    "output_tokens": 4,
    "total_tokens": 7,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
WHERE: dict[str, Any] = {"item_id": "i1", "output_index": 0, "content_index": 0}
RESPONSES: list[dict[str, Any]] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress"}},
    {"type": "response.reasoning_summary_text.delta", **WHERE, "summary_index": 0, "delta": "Hm."},
    {"type": "response.output_text.delta", **WHERE, "delta": "Forty", "logprobs": []},
    {"type": "response.output_text.delta", **WHERE, "delta": "-two.", "logprobs": []},
    {"type": "response.output_item.done", "output_index": 1, "item": CALL},
    {"type": "response.completed", "response": {**RESPONSE, "status": "completed", "usage": USAGE}},
]
FAILED = {"type": "response.failed", "response": {**RESPONSE, "status": "failed"}}


def double(chat: list[Any], responses: list[Any]) -> FastAPI:
    """A server that streams these objects."""
    app = FastAPI()

    def stream(lines: list[str]) -> StreamingResponse:
        return StreamingResponse(iter(lines), media_type="text/event-stream")

    @app.post("/v1/chat/completions")
    async def chats() -> StreamingResponse:
        return stream([f"data: {json.dumps(each)}\n\n" for each in chat] + ["data: [DONE]\n\n"])

    @app.post("/v1/responses")
    async def create() -> StreamingResponse:
        numbered = [{**each, "sequence_number": at} for at, each in enumerate(responses)]
        return stream([f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in numbered])

    return app


def run(api: str, chat: list[Any] = CHAT, responses: list[Any] = RESPONSES) -> Shown:
    with served(double(chat, responses)) as url:

        async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
                if api == "chat":
                    chunks = await client.chat.completions.create(
                        model="scripted", messages=[{"role": "user", "content": question.prompt}], stream=True
                    )
                    return await ragwire.openai.chat(chunks, sink)
                events = await client.responses.create(model="scripted", input=question.prompt, stream=True)
                return await ragwire.openai.responses(events, sink)

        return ask(answer, "What?")


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_stream_of_the_package_is_a_turn(api: str) -> None:
    shown = run(api)
    thought = {"chat": "chat-1", "responses": "i1"}[api]
    assert shown.events == [
        {"event": "thinking", "content": "Hm.", "id": thought},
        {"event": "tool_call", "tool": "bm25", "input": {"query": "rule"}, "call_id": "c1"},
    ]
    assert shown.text == "Forty-two."
    assert shown.metadata["tools_used"] == ["bm25"]
    assert shown.metadata["usage"] == {"input_tokens": 3, "output_tokens": 4, "model": "scripted"}


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_stream_that_breaks_off_is_a_failed_turn(api: str) -> None:
    shown = run(api, CHAT[:3], RESPONSES[:4])
    assert shown.end is not None and shown.end.error is not None
    assert (shown.end.status, shown.end.error["code"]) == ("failed", "upstream_truncated")
    assert shown.text == "Forty-two."


def test_a_response_that_failed_is_a_failed_turn() -> None:
    shown = run("responses", responses=[*RESPONSES[:3], FAILED])
    assert shown.end is not None and shown.end.error is not None
    assert (shown.end.status, shown.end.error["code"]) == ("failed", "upstream_failed")
