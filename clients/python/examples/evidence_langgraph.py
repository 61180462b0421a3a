"""The service of ADR 0007 as a LangGraph graph: `uvicorn evidence_langgraph:app`.

`evidence.py` has the same steps without a framework. Replace `model` by `init_chat_model(…)`.
"""

from __future__ import annotations

from typing import Annotated, Any

import ragwire
import ragwire.langgraph
from evidence import DOCUMENTS, words
from fastapi import FastAPI
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from typing_extensions import TypedDict


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    evidence: dict[str, str]
    iteration: int


def model(text: str) -> GenericFakeChatModel:
    """A model that streams this text, word by word."""
    return GenericFakeChatModel(messages=iter([AIMessage(text)]))


async def search(state: State) -> dict[str, Any]:
    emit, prompt = get_stream_writer(), str(state["messages"][-1].content)
    emit({"event": "search", "tool": "bm25_search", "query": prompt})
    if "fail" in words(prompt):
        raise RuntimeError("the index is damaged")
    iteration = state.get("iteration", 0) + 1
    found = {id: text for id, text in DOCUMENTS.items() if len(words(text) & words(prompt)) >= 3 - iteration}
    return {"evidence": found, "iteration": iteration}


async def review(state: State) -> dict[str, Any]:
    verdict = "approved" if state["evidence"] else "rejected"
    get_stream_writer()({"event": "review", "iteration": state["iteration"], "verdict": verdict})
    return {}


async def write(state: State) -> dict[str, Any]:
    quotes = [f"{text} [{number}]" for number, text in enumerate(state["evidence"].values(), start=1)]
    text = " ".join(quotes) or "The documents do not say."
    return {"messages": [await model(text).ainvoke(state["messages"])]}


def next_node(state: State) -> str:
    return "write" if state["evidence"] or state["iteration"] == 2 else "search"


builder = StateGraph(State)
builder.add_node("search", search)
builder.add_node("review", review)
builder.add_node("write", write)
builder.add_edge(START, "search")
builder.add_edge("search", "review")
builder.add_conditional_edges("review", next_node, ["search", "write"])
builder.add_edge("write", END)
graph = builder.compile()


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    return await ragwire.langgraph.run(graph, question, sink, answer_nodes=["write"])


app = FastAPI()
app.mount("/", ragwire.Endpoints(answer))
