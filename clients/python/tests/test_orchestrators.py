"""What an orchestrator may be, return, raise and emit."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

import ragwire
from conftest import PATIENCE, Serve, ask, text_of

SECRET = "password=hunter2"


async def collect(answer: Any, question: Any = "why?", **options: Any) -> dict[str, Any]:
    turn = await ragwire.Turn.start(answer, question, **options).commit()
    return await asyncio.wait_for(turn.collect(), PATIENCE)


async def test_an_async_function_emits_and_returns_metadata() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        await sink.event("search", tool="bm25", query=question.prompt)
        for token in ("Forty", "-", "two."):
            await sink.text(token)
        return ragwire.Metadata(tools_used=["bm25"], request="r-1")

    turn = await collect(answer)
    assert turn["text"] == "Forty-two."
    assert turn["events"] == [{"event": "search", "tool": "bm25", "query": "why?"}]
    assert (turn["status"], turn["error"]) == ("completed", None)
    assert turn["metadata"].tools_used == ["bm25"]
    assert turn["metadata"].extra == {"request": "r-1"}


async def test_a_plain_function_runs_in_a_thread_and_blocks_there() -> None:
    threads: list[threading.Thread] = []

    def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        threads.append(threading.current_thread())
        for _ in range(1000):
            sink.text("x" * 100)

    turn = await collect(answer)
    assert turn["text"] == "x" * 100_000
    assert threads[0] is not threading.current_thread()


async def test_an_async_generator_yields_text_events_and_metadata() -> None:
    async def answer(
        question: ragwire.Question,
    ) -> AsyncGenerator[str | ragwire.Event | ragwire.Metadata, None]:
        yield ragwire.Event("my_step", {"n": 1})
        yield "Forty-two."
        yield ragwire.Metadata(mode="direct")

    turn = await collect(answer)
    assert (turn["text"], turn["events"]) == ("Forty-two.", [{"event": "my_step", "data": {"n": 1}}])
    assert turn["metadata"].mode == "direct"


async def test_a_plain_generator_runs_in_a_thread() -> None:
    threads: list[threading.Thread] = []
    closed = threading.Event()

    def answer(question: ragwire.Question) -> Iterator[str | ragwire.Event | ragwire.Metadata]:
        threads.append(threading.current_thread())
        try:
            yield ragwire.Event("search", tool="bm25")
            for _ in range(1000):
                yield "x" * 100
            yield ragwire.Metadata(mode="direct")
        finally:
            closed.set()

    turn = await collect(answer)
    assert (turn["text"], turn["events"][0]["tool"]) == ("x" * 100_000, "bm25")
    assert turn["metadata"].mode == "direct"
    assert threads[0] is not threading.current_thread()
    assert closed.is_set()


async def test_a_plain_generator_is_closed_when_its_turn_is_stopped() -> None:
    closed = threading.Event()

    def answer(question: ragwire.Question) -> Iterator[str]:
        try:
            while True:
                yield "x" * 1000
        finally:
            closed.set()

    turn = await ragwire.Turn.start(answer).commit()
    assert turn.stop()
    assert await asyncio.to_thread(closed.wait, PATIENCE)


async def test_an_object_with_call_is_an_orchestrator() -> None:
    class Rag:
        async def __call__(self, question: ragwire.Question, sink: ragwire.Sink) -> None:
            await sink.text(question.prompt)

    assert (await collect(Rag(), "hello"))["text"] == "hello"


async def test_context_variables_of_the_request_reach_the_orchestrator() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(user.get())

    def in_thread(question: ragwire.Question, sink: ragwire.Sink) -> None:
        sink.text(user.get())

    user.set("ada")
    assert (await collect(answer))["text"] == "ada"
    assert (await collect(in_thread))["text"] == "ada"


@pytest.mark.parametrize("emits_first", [False, True])
async def test_an_exception_is_logged_and_never_sent(
    emits_first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        if emits_first:
            await sink.text("Well,")
            # Begins the response, so that the failure is its terminal.
            await asyncio.sleep(0.05)
        raise ValueError(SECRET)

    if emits_first:
        turn = await collect(answer)
        assert turn["status"] == "failed"
        assert turn["error"]["code"] == "chat_failed"
        assert SECRET not in str(turn)
    else:
        with pytest.raises(ragwire.Rejected) as rejected:
            await collect(answer)
        assert (rejected.value.status, rejected.value.code) == (500, "chat_failed")
        assert SECRET not in str(rejected.value)
    (record,) = [record for record in caplog.records if record.name == "ragwire"]
    assert record.levelno == logging.ERROR
    assert SECRET in caplog.text, "the log has the traceback"


async def test_a_failure_reaches_the_reader_with_its_words() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        raise ragwire.Failure("quota", "You have used today's quota.", recoverable=False)

    with pytest.raises(ragwire.Rejected) as rejected:
        await collect(answer)
    error = rejected.value.body()["error"]
    assert isinstance(error, dict)
    assert error["code"] == "quota"
    assert error["message"] == "You have used today's quota."
    assert error["recoverable"] is False


async def test_a_wrong_result_fails_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> Any:
        return "the answer"

    with pytest.raises(ragwire.Rejected):
        await collect(answer)
    assert "returns ragwire.Metadata or None, not str" in caplog.text


@pytest.mark.parametrize(
    ("name", "data", "members", "problem"),
    [
        ("search", None, {}, "missing field `tool`"),
        ("search", None, {"tool": "bm25", "querry": "x"}, "unknown member `querry`"),
        ("search", None, {"tool": 1}, "expected a string"),
        ("search", {"tool": "bm25"}, {}, "members are keyword arguments"),
        ("review", None, {"verdict": "maybe"}, "unknown variant"),
        ("", None, {}, "event name"),
        ("a\nb", None, {}, "event name"),
    ],
)
def test_events_are_checked(name: str, data: Any, members: dict[str, Any], problem: str) -> None:
    with pytest.raises(ragwire.EventError, match=problem):
        ragwire.Event(name, data, **members)


def test_a_typed_event_leaves_out_what_is_none() -> None:
    assert len(ragwire.Event.NAMES) == 26
    event = ragwire.Event("review", iteration=1, verdict="approved", feedback=None)
    assert event.as_dict() == {"event": "review", "iteration": 1, "verdict": "approved"}


def test_data_that_is_not_json_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for data, error in [
        (object(), TypeError),
        ({1: 2}, TypeError),
        (float("nan"), ValueError),
        (2**64, ValueError),
        (endless, ValueError),
    ]:
        with pytest.raises(error):
            ragwire.Event("my_step", data)
    assert ragwire.Event("my_step", 2**64 - 1).as_dict()["data"] == 2**64 - 1


async def test_text_is_a_plain_call_while_there_is_room() -> None:
    calls: list[str] = []

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        calls.append(repr(sink.text("not awaited, and sent")))

    assert (await collect(answer))["text"] == "not awaited, and sent"
    assert calls == ["<ragwire awaitable, done>"]


async def test_a_full_queue_waits_for_its_reader() -> None:
    sent = 0

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        nonlocal sent
        for _ in range(100):
            await sink.text("x" * 4096)
            sent += 1

    turn = await ragwire.Turn.start(answer).commit()
    for _ in range(10):
        await asyncio.sleep(0)
    assert 12 <= sent <= 13, "48 KiB fit"
    collected = await asyncio.wait_for(turn.collect(), PATIENCE)
    assert len(collected["text"]) == 100 * 4096


async def test_text_that_found_no_room_and_was_not_awaited_fails_the_turn() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        for _ in range(100):
            sink.text("x" * 4096)

    turn = await collect(answer)
    assert turn["status"] == "failed"


async def test_a_long_text_is_a_plain_call_too_while_there_is_room() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        sink.text("x" * 40_000)

    turn = await collect(answer)
    assert (turn["text"], turn["status"]) == ("x" * 40_000, "completed")


async def test_a_text_of_any_size_arrives() -> None:
    long = "é€𝄞" * 100_000

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(long)

    assert (await collect(answer))["text"] == long


async def test_a_stopped_turn_cancels_its_task() -> None:
    cancelled = asyncio.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with pytest.raises(ragwire.SendError) as error:
                sink.text("too late")
            assert error.value.code == "turn_ended"
            cancelled.set()
            raise

    turn = await ragwire.Turn.start(answer).commit()
    assert turn.stop()
    assert not turn.stop()
    collected = await asyncio.wait_for(turn.collect(), PATIENCE)
    assert (collected["text"], collected["status"]) == ("Forty", "stopped")
    await asyncio.wait_for(cancelled.wait(), PATIENCE)


async def test_a_turn_that_is_dropped_cancels_its_task() -> None:
    cancelled = asyncio.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    turn = await ragwire.Turn.start(answer).commit()
    del turn
    await asyncio.wait_for(cancelled.wait(), PATIENCE)


async def test_a_stopped_thread_gets_an_error_at_its_next_send() -> None:
    errors: list[str] = []
    finished = threading.Event()

    def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        try:
            while True:
                sink.text("x" * 1000)
        except ragwire.SendError as error:
            errors.append(error.code)
            raise
        finally:
            finished.set()

    turn = await ragwire.Turn.start(answer).commit()
    assert turn.stop()
    assert await asyncio.to_thread(finished.wait, PATIENCE)
    assert errors == ["turn_ended"]


async def test_a_task_cancelled_by_something_else_ends_its_turn() -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        await sink.text("Forty")
        await asyncio.Event().wait()

    turn = await ragwire.Turn.start(answer).commit()
    tasks[0].cancel()
    collected = await asyncio.wait_for(turn.collect(), PATIENCE)
    assert (collected["text"], collected["error"]["code"]) == ("Forty", "shutting_down")


async def test_a_human_answers() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        verdict = await sink.ask("Delete 3 files?", kind="approval", request_id="delete")
        await sink.text(f"{verdict}d.")

    turn = await ragwire.Turn.start(answer).commit()
    (question,) = turn.open_questions()
    assert question == {
        "request_id": "delete",
        "kind": "approval",
        "prompt": "Delete 3 files?",
        "options": ["Approve", "Reject"],
    }
    with pytest.raises(ragwire.AnswerError) as error:
        turn.answer("delete", "perhaps")
    assert error.value.status == 422
    turn.answer("delete", "Approve")
    collected = await asyncio.wait_for(turn.collect(), PATIENCE)
    assert collected["text"] == "Approved."


async def test_a_human_answers_a_thread() -> None:
    def answer(question: ragwire.Question, sink: Any) -> None:
        sink.text(sink.ask("Which year?", options=["2023", "2024"], request_id="year"))

    turn = await ragwire.Turn.start(answer).commit()
    turn.answer("year", "2024")
    collected = await asyncio.wait_for(turn.collect(), PATIENCE)
    assert collected["text"] == "2024"


async def test_a_question_without_an_answer_expires() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        with pytest.raises(ragwire.AskError) as error:
            await sink.ask("Anyone?", within=0.01)
        await sink.text(error.value.code)

    assert (await collect(answer))["text"] == "ask_expired"


async def test_the_question_has_what_the_client_sent(serve: Serve) -> None:
    seen: list[ragwire.Question] = []

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        seen.append(question)
        await sink.text(question.prompt)

    server = serve(ragwire.Endpoints(answer, pass_headers=["X-Tenant"], owner=lambda scope: "ada"))
    assert text_of(ask(server.url, "why?", headers={"x-tenant": "acme"})) == "why?"
    (question,) = seen
    assert (question.prompt, question.owner, question.effort) == ("why?", "ada", "medium")
    assert question.headers == {"x-tenant": "acme"}
    assert "why?" not in repr(question)
