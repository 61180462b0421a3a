"""A FastAPI service that answers with a LangGraph graph, for `ragwire-server --orchestrator`.

The model is scripted, so that the example runs without a key. Put any chat model of LangChain in its
place: the rest stays as it is.
"""

import json
import re
from typing import TypedDict

from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph

PASSAGES = {
    "commit": "The status of a response is decided by its first frame.",
    "journal": "The journal keeps the frames of a turn, so that a client can resume it.",
}


class State(TypedDict):
    question: str
    history: list[dict]
    passages: list[str]


def retrieve(state: State) -> dict:
    """Searches, and reports it while it happens."""
    write = get_stream_writer()
    write({"event": "retrieval_start", "tool": "words", "query": state["question"], "top_k": 2})
    words = set(re.findall(r"\w+", state["question"].lower()))
    found = [key for key in PASSAGES if key in words]
    write({"event": "retrieval_result", "tool": "words", "chunks_found": len(found), "duration_ms": 0})
    write({"event": "sources", "sources": [source(key) for key in found]})
    return {"passages": found}


def source(key: str) -> dict:
    return {
        "chunk_id": f"{key}-1",
        "document_id": key,
        "text": PASSAGES[key],
        "title": f"{key}.md",
    }


async def generate(state: State) -> dict:
    answer = " ".join(PASSAGES[key] for key in state["passages"]) or "I found nothing about that."
    model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
    await model.ainvoke([*state["history"], {"role": "user", "content": state["question"]}])
    return {}


graph = StateGraph(State)
graph.add_node("retrieve", retrieve)
graph.add_node("generate", generate)
graph.add_edge(START, "retrieve")
graph.add_edge("retrieve", "generate")
graph.add_edge("generate", END)
graph = graph.compile()

app = FastAPI()


@app.post("/ask")
async def ask(request: Request):
    question = await request.json()
    return StreamingResponse(answer(question), media_type="application/x-ndjson")


async def answer(question: dict):
    """One JSON object per line: the graph's events, the model's tokens, and the end."""
    history = [{"role": said["role"], "content": said["text"]} for said in question.get("history", [])]
    state = {"question": question["prompt"], "history": history, "passages": []}
    found: list[str] = []
    async for mode, chunk in graph.astream(state, stream_mode=["custom", "messages", "updates"]):
        if mode == "custom":
            yield line(chunk)
        elif mode == "messages":
            yield line({"text": chunk[0].content})
        elif "retrieve" in chunk:
            found = chunk["retrieve"]["passages"]
    citations = [
        {
            "document_id": key,
            "chunk_id": f"{key}-1",
            "supporting_quote": PASSAGES[key],
            "source_tool": "words",
        }
        for key in found
    ]
    yield line({"end": "completed", "metadata": {"citations": citations, "tools_used": ["words"]}})


def line(frame: dict) -> str:
    return json.dumps(frame) + "\n"
