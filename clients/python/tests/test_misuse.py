"""The mistakes that are easy to make: each message names the value and what to write instead."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import gc
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

import ragwire
from conftest import PATIENCE


async def collect(answer: Any, **options: Any) -> dict[str, Any]:
    turn = await ragwire.Turn.start(answer, "why?", **options).commit()
    return await asyncio.wait_for(turn.collect(), PATIENCE)


async def pieces() -> AsyncIterator[str]:
    yield "Forty"


class Chunk:
    content = "Forty"


TEXTS: dict[str, tuple[Callable[[], Any], str]] = {
    "None": (lambda: None, "not None: skip the pieces of a model that have no text: `if text: await sink.text"),
    "bytes": (lambda: b"x", "not bytes: decode it first"),
    "dict": (lambda: {"event": "search"}, r"not dict: send an event with `await sink.event\(name, \*\*members\)`"),
    "event": (lambda: ragwire.Event("my_step"), r"not Event: send an event with `await sink.send\(event\)`"),
    "metadata": (lambda: ragwire.Metadata(), "not Metadata: return the metadata at the end"),
    "async stream": (pieces, "not async_generator: send each piece: `async for text in stream"),
    "stream": (lambda: (letter for letter in "ab"), "not generator: send each piece: `for text in stream"),
    "chunk": (lambda: Chunk(), "not Chunk: send the text in it, such as `chunk.content`"),
}


@pytest.mark.parametrize("kind", TEXTS)
async def test_text_that_is_no_text(kind: str) -> None:
    make, problem = TEXTS[kind]

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        with pytest.raises(TypeError, match="sink.text takes a str, " + problem):
            sink.text(make())
        await sink.text("done")

    assert (await collect(answer))["text"] == "done"


async def test_an_answer_of_a_human_that_was_not_awaited_is_named() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        verdict = sink.ask("Delete?", kind="approval")
        with pytest.raises(TypeError, match="sink.text takes a str, not Promise: `await` it first"):
            sink.text(verdict)  # type: ignore[arg-type]
        with pytest.raises(AttributeError, match=r"sink.ask\(\) has to be awaited first: \(await sink.ask\(\)\).lower"):
            verdict.lower()  # type: ignore[attr-defined]
        with pytest.warns(RuntimeWarning, match=r"^sink.ask\(\) was never awaited$"):
            del verdict
            gc.collect()
        await sink.text("done")

    assert (await collect(answer))["text"] == "done"


async def test_a_forgotten_await_of_commit_is_named() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")

    turn = ragwire.Turn.start(answer)
    with pytest.raises(RuntimeError, match=r"await commit\(\) before the turn is read"):
        turn.response("sse")
    with pytest.warns(RuntimeWarning, match=r"turn.commit\(\) was never awaited"):
        with pytest.raises(AttributeError, match=r"\(await turn.commit\(\)\).response"):
            turn.commit().response("sse")  # type: ignore[attr-defined]
        gc.collect()


async def test_an_awaitable_that_is_awaited_or_passed_on_is_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")

    turn = await asyncio.wait_for(ragwire.Turn.start(answer).commit(), PATIENCE)
    await asyncio.gather(turn.collect())
    ragwire.Endpoints(answer, journal=ragwire.Journal.redis("redis://127.0.0.1:1"))
    gc.collect()
    assert [str(warning.message) for warning in recwarn if warning.category is RuntimeWarning] == []


EVENTS: list[tuple[tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    (({"event": "search"},), {}, TypeError, "an event begins with its name, a str, not dict: `await sink.event"),
    ((ragwire.Event("my_step"),), {}, TypeError, r"not Event: send an event with `await sink.send\(event\)`"),
    (("search", {"tool": "bm25"}), {}, ragwire.EventError, r'members are keyword arguments: \("search", \*\*members\)'),
    (("search",), {}, ragwire.EventError, "event `search`: missing field `tool`"),
    (("search",), {"tool": "x", "querry": "y"}, ragwire.EventError, "unknown member `querry`"),
    (("a\nb",), {}, ragwire.EventError, r'no control characters.*: "a\\nb"'),
]


@pytest.mark.parametrize(("arguments", "members", "error", "problem"), EVENTS)
def test_events(arguments: Any, members: dict[str, Any], error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        ragwire.Event(*arguments, **members)


@dataclasses.dataclass
class Hit:
    score: float


class Model:
    def model_dump(self) -> dict[str, Any]:
        return {}


class Scalar:
    """As those of NumPy."""

    def tolist(self) -> float:
        return 0.5


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"hits": [1, Hit(0.5)]}, r"^hits\[1\]: Hit is not JSON: use `dataclasses.asdict\(value\)`"),
        ({"a": {"b": Scalar()}}, r'^a\["b"\]: Scalar is not JSON: call its `tolist\(\)`'),
        (Model(), r"^Model is not JSON: call its `model_dump\(mode=\"json\"\)`"),
        ([datetime(2026, 1, 1)], r"^\[0\]: datetime is not JSON: call its `isoformat\(\)`"),
        ({"x": {1, 2}}, "^x: set is not JSON: use str, int, float, bool, None, list, tuple and dict"),
        ({"x": {1: 2}}, r"^x: the keys of JSON are str, not 1 \(int\)"),
        ({"x": [float("nan")]}, r"^x\[0\]: JSON has no NaN"),
    ],
)
def test_data_that_is_not_json_is_found_in_it(value: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        ragwire.Event("my_step", value)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"citations": {"chunk_id": "1"}}, "citations must be a list of dictionaries, not dict"),
        ({"citations": [{"document_id": "d"}]}, r"citations\[0\]: missing field"),
        ({"tools_used": "bm25"}, r"tools_used must be a list of str, not 'bm25' \(str\)"),
        ({"usage": {"input_tokens": "many"}}, "usage: invalid type"),
    ],
)
def test_metadata(members: dict[str, Any], problem: str) -> None:
    with pytest.raises(ragwire.OptionError, match=problem):
        ragwire.Metadata(**members)


RESULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "str": (lambda: "the answer", "not str: send the answer with `await sink.text(text)`"),
    "dict": (lambda: {"citations": []}, "not dict: `return ragwire.Metadata(**metadata)`"),
    "stream": (pieces, "not async_generator: send its pieces"),
    "other": (lambda: 42, "not int: emit events and text into the sink"),
}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("is_async", [True, False])
async def test_results(kind: str, is_async: bool, caplog: pytest.LogCaptureFixture) -> None:
    make, problem = RESULTS[kind]

    async def on_loop(question: ragwire.Question, sink: ragwire.Sink) -> Any:
        return make()

    def in_thread(question: ragwire.Question, sink: ragwire.Sink) -> Any:
        return make()

    with pytest.raises(ragwire.Rejected):
        await collect(on_loop if is_async else in_thread)
    assert f"an orchestrator returns ragwire.Metadata or None, {problem}" in caplog.text


async def one(question: ragwire.Question) -> None:
    pass


async def three(question: ragwire.Question, sink: ragwire.Sink, model: str) -> None:
    pass


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (one, r"one\(question: .*\) .*cannot be called with a question and a sink: write `async def answer\(question, sink\)`"),
        (three, "cannot be called with a question and a sink"),
        (lambda: None, "cannot be called with a question and a sink"),
        (pieces(), r"not async_generator: pass the function itself: Endpoints\(answer\), not Endpoints\(answer\(...\)\)"),
        ("answer", r"an orchestrator is a function, not str: write `async def answer"),
        (None, "an orchestrator is a function, not NoneType"),
    ],
)
def test_an_orchestrator_that_cannot_be_called_is_refused_at_once(answer: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        ragwire.Endpoints(answer)


async def test_arguments_with_defaults_stay_those_of_the_application() -> None:
    async def stream(question: ragwire.Question, top_k: int = 5) -> AsyncIterator[str]:
        yield f"{top_k}"

    def with_sink(question: ragwire.Question, sink: Any = None) -> Iterator[str]:
        sink.text("sink ")
        yield "and yield"

    assert (await collect(stream))["text"] == "5"
    assert (await collect(functools.partial(stream, top_k=6)))["text"] == "6"
    assert (await collect(with_sink))["text"] == "sink and yield"


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"event": "search"}, "a turn has str and ragwire.Event, not dict: send an event with .* or yield `ragwire.Event"),
        (None, "a turn has str and ragwire.Event, not None: skip the pieces of a model that have no text"),
        (b"x", "not bytes: decode it first"),
    ],
)
async def test_yielded_items(item: Any, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    async def on_loop(question: ragwire.Question) -> AsyncIterator[Any]:
        yield item

    def in_thread(question: ragwire.Question) -> Iterator[Any]:
        yield item

    for answer in (on_loop, in_thread):
        caplog.clear()
        with pytest.raises(ragwire.Rejected):
            await collect(answer)
        assert re.search(problem, caplog.text)


async def test_questions() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(question.prompt)

    with pytest.raises(TypeError, match=r"its prompt, a str, not dict: `ragwire.Question\(\*\*question\)`"):
        ragwire.Turn.start(answer, {"prompt": "why?"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="its prompt, a str, not int"):
        ragwire.Turn.start(answer, 5)  # type: ignore[arg-type]
    with pytest.raises(ragwire.OptionError, match="unknown member of a question: promt; known: history"):
        ragwire.Question("why?", promt="x")  # type: ignore[call-arg]


async def echo(question: ragwire.Question, sink: ragwire.Sink) -> None:
    await sink.text(question.prompt)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"idle": "5"}, r"idle must be a number, not '5' \(str\)"),
        ({"idle": -1}, "idle must be a number of seconds from 0, not -1"),
        ({"max_question_bytes": 1.5}, r"max_question_bytes must be a whole number from 0, not 1.5 \(float\)"),
        ({"client_share": 0}, "client_share must be a percentage from 1 to 100, not 0"),
        ({"client_share": 500}, r"client_share must be a whole number from 0 to 255, not 500"),
        ({"name": 5}, r"name must be a str, not 5 \(int\)"),
        ({"attachments": "yes"}, r"attachments must be True or False, not 'yes' \(str\)"),
        ({"journal": "redis://x"}, r"journal must be a ragwire.Journal, not 'redis://x' \(str\)"),
        ({"sessions": {}}, r"sessions must be a ragwire.Sessions, not {} \(dict\)"),
        ({"turns": 5}, r"turns must be a ragwire.TurnGroup, not 5 \(int\)"),
        ({"turns": ragwire.TurnGroup()}, "turns must be a TurnGroup with max_per_owner=1"),
        ({"owner": "x-user"}, "owner must be a function of an ASGI scope, not str"),
        ({"pass_headers": "x-tenant"}, r"pass_headers must be a list of str, not a str: \['x-tenant'\]"),
        ({"allow_origins": [5]}, r"allow_origins must be a list of str, not \[5\] \(list\)"),
        ({"protocols": ["smtp"]}, 'unknown protocol "smtp"; known: rag, turns'),
    ],
)
def test_options(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ragwire.OptionError, match=problem):
        ragwire.Endpoints(echo, **options)


async def test_options_of_turns() -> None:
    for options, problem in [
        ({"on_disconnect": "stop"}, 'on_disconnect must be cancel, run_to_end or seconds, not "stop"'),
        ({"on_disconnect": []}, r"on_disconnect must be cancel, run_to_end or seconds, not \[\] \(list\)"),
        ({"commit_on": "text"}, 'commit_on must be first_frame or first_text, not "text"'),
        ({"jurnal": None}, "unknown option jurnal; known: .*journal"),
        ({"journal": ragwire.Journal.redis("redis://x")}, "journal must be a ragwire.Journal, not an awaitable: await it first"),
    ]:
        with pytest.raises(ragwire.OptionError, match=problem):
            ragwire.Turn.start(echo, **options)  # type: ignore[arg-type]
    turn = await ragwire.Turn.start(echo, "why?").commit()
    with pytest.raises(ragwire.OptionError, match='unknown wire "smtp"; known: framed, sse'):
        turn.response("smtp")
    assert (await turn.collect())["text"] == "why?"
    with pytest.raises(RuntimeError, match="committed once and read once"):
        turn.collect()
    with pytest.raises(ragwire.OptionError, match='a turn ID has 32 hexadecimal digits: "t-1"'):
        ragwire.Journal().resume("t-1")


def test_a_turn_needs_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        ragwire.Turn.start(echo, "why?")


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"url": "localhost:8000"}, ValueError, "url must begin with http:// or https://, not 'localhost:8000'"),
        ({"wire": "framed"}, ValueError, "wire must be one of ndjson, sse, whose frames have an index, not 'framed'"),
        ({"http": object()}, TypeError, "http must be an httpx"),
    ],
)
@pytest.mark.parametrize("client", [ragwire.Client, ragwire.AsyncClient])
def test_clients(client: Any, options: dict[str, Any], error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=problem):
        client(**{"url": "http://localhost", **options})
