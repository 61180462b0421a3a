"""The README's blocks about readers and adapters, run as they are printed."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import ragwire
from fastapi import FastAPI
from serving import ask, served
from starlette.responses import StreamingResponse

README = (Path(__file__).parents[1] / "README.md").read_text()


def block(text: str) -> str:
    """Return the block of Python that contains this text."""
    (found,) = [each for each in re.findall(r"```python\n(.*?)```", README, re.S) if text in each]
    return str(found)


def test_the_client_prints_a_turn(capsys: pytest.CaptureFixture[str]) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        await sink.event("search", tool="bm25", query=question.prompt)
        await sink.text("Forty-two.")
        return ragwire.Metadata(tools_used=["bm25"])

    with served(ragwire.Endpoints(answer)) as url:
        exec(block("ragwire.Client(").replace("http://localhost:8000", url), {})
    assert capsys.readouterr().out == "searching with bm25\nForty-two.completed []\n"


def test_another_servers_stream_is_read() -> None:
    app = FastAPI()

    @app.post("/api/chat")
    async def chat() -> StreamingResponse:
        lines = ['{"message":{"role":"assistant","content":"Hi."},"done":false}\n', '{"done":true}\n']
        return StreamingResponse(iter(lines), media_type="application/x-ndjson")

    names: dict[str, Any] = {}
    with served(app) as url:
        exec(block("httpx.stream(").replace("http://localhost:11434", url), names)
    assert isinstance(names["item"], ragwire.EndItem)


def test_the_adapter_of_langgraph_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(content="Forty-two.")]})
    builder.add_edge(START, "model")
    my_app: Any = types.ModuleType("my_app")
    my_app.graph = builder.compile()
    monkeypatch.setitem(sys.modules, "my_app", my_app)
    names: dict[str, Any] = {}
    exec(block("from my_app import graph"), names)
    assert ask(names["answer"], "What?").text == "Forty-two."
