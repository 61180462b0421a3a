"""Figures of turns, the store of finished turns, and padding."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest

import ragwire
from conftest import PATIENCE, Serve, ask, text_of, wait_until


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    if question.prompt == "wait":
        await asyncio.Event().wait()
    await sink.event("search", tool="bm25", query=question.prompt)
    await sink.text("Forty-two.")
    if question.prompt == "fail":
        raise ragwire.Failure("quota", "You have used today's quota.")
    return ragwire.Metadata(usage={"input_tokens": 3, "output_tokens": 4})


def test_an_observer_gets_the_figures_of_each_turn(serve: Serve) -> None:
    seen: list[ragwire.FinishedTurn] = []
    server = serve(ragwire.Endpoints(answer, observer=seen.append))
    for prompt in ("why?", "fail"):
        ask(server.url, prompt)
    wait_until(lambda: len(seen) == 2)
    completed, failed = seen
    assert (completed.outcome, completed.wire, completed.frames, completed.error) == ("completed", "ndjson", 2, None)
    assert completed.usage is not None and completed.usage["output_tokens"] == 4
    assert completed.first_event is not None and completed.first_text is not None and completed.waited is not None
    assert 0 <= completed.waited <= completed.first_event <= completed.first_text <= completed.duration < PATIENCE
    assert (failed.outcome, failed.usage, len(failed.id)) == ("failed", None, 32)
    assert failed.error is not None and failed.error["code"] == "quota"


async def test_an_observer_of_one_turn_sees_why_it_was_rejected() -> None:
    seen: list[ragwire.FinishedTurn] = []
    with pytest.raises(ragwire.Rejected) as rejected:
        await ragwire.Turn.start(answer, "wait", idle=0.05, observer=seen.append).commit()
    while not seen:
        await asyncio.sleep(0.005)
    assert (seen[0].outcome, seen[0].wire, seen[0].id) == ("rejected", None, rejected.value.turn_id)
    assert seen[0].error is not None and seen[0].error["code"] == rejected.value.code


def test_an_observer_that_raises_is_logged_and_harms_no_turn(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    def observer(turn: ragwire.FinishedTurn) -> None:
        raise ValueError(turn.outcome)

    with caplog.at_level(logging.ERROR, "ragwire"):
        server = serve(ragwire.Endpoints(answer, observer=observer))
        assert text_of(ask(server.url)) == "Forty-two."
        wait_until(lambda: bool(caplog.records))
    assert caplog.records[0].message == "the observer of turns failed"
    assert "ValueError: completed" in caplog.text


def test_records_have_a_store_of_their_own(serve: Serve) -> None:
    sessions, records = ragwire.Sessions(), ragwire.Sessions(**ragwire.Endpoints.record_limits())

    def url(**options: Any) -> str:
        return serve(ragwire.Endpoints(answer, owner=lambda scope: "alice", sessions=sessions, **options)).url

    def turns(url: str) -> list[tuple[str, str]]:
        found = httpx.get(f"{url}/v1/sessions/s-1/turns", timeout=PATIENCE).json()["turns"]
        return [(turn["question"], turn["answer"]) for turn in found]

    first = url(records=records)
    asked = httpx.post(f"{first}/v1/turns", json={"prompt": "why?", "session_id": "s-1"}, timeout=PATIENCE)
    assert asked.status_code == 200
    wait_until(lambda: turns(first) == [("why?", "Forty-two.")])
    assert turns(url(records=records)) == [("why?", "Forty-two.")]
    assert turns(url()) == []


def test_the_limits_of_records_and_of_states_are_those_of_rust() -> None:
    limits = ragwire.Endpoints.record_limits(max_sessions=7, max_age=60.0)
    assert (limits["max_sessions"], limits["max_messages"], limits["max_age"]) == (14, 0, 60.0)
    default = ragwire.Endpoints.max_state_bytes(8 << 10)
    assert ragwire.Endpoints.max_state_bytes(16 << 10) > default > 8 << 10


SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/turns",
    "query_string": b"",
    "headers": [(b"accept", b"text/event-stream"), (b"content-type", b"application/json")],
}


@pytest.mark.parametrize("pad_to", [0, 256])
@pytest.mark.parametrize("by", ["endpoints", "response"])
async def test_padding_hides_the_sizes_of_the_texts(by: str, pad_to: int) -> None:
    is_read = asyncio.Event()
    sizes: list[int] = []
    messages = [{"type": "http.request", "body": b'{"prompt": "why?"}'}]

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty-two.")
        await is_read.wait()

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if message.get("body"):
            sizes.append(len(message["body"]))
            is_read.set()

    if by == "endpoints":
        await ragwire.Endpoints(answer, pad_to=pad_to)(SCOPE, receive, send)
    else:
        turn = await ragwire.Turn.start(answer, "why?").commit()
        await turn.response("sse", pad_to=pad_to)(SCOPE, receive, send)
    assert (sizes[0] == 256) == (pad_to == 256)
    # The last piece has no padding.
    assert len(sizes) == 2
