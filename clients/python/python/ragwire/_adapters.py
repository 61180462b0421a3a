"""What the adapters share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from ragwire import Question, Sink
from ragwire.events import CitationRecord, Source


class Needs:
    """Explains an import that fails because the extra of an adapter is not installed."""

    def __init__(self, extra: str) -> None:
        self._extra = extra

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if isinstance(error, ModuleNotFoundError):
            module = self._extra.replace("-", "_")
            message = f"ragwire.{module} needs {error.name}: pip install 'ragwire[{self._extra}]'"
            raise ModuleNotFoundError(message, name=error.name) from error


def history(question: Question) -> list[tuple[str, str]]:
    """Return the earlier messages as pairs of role and text."""
    return [(message["role"], message["text"]) for message in question.history]


def as_list(value: object) -> list[Any]:
    """Return a list or a tuple as a list, None as an empty one, and anything else as its only element."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


async def put_text(sink: Sink, text: object) -> None:
    """Emit a piece of the answer; anything but a string is ignored."""
    if isinstance(text, str) and text:
        await sink.text(text)


async def put_thought(sink: Sink, text: object, id: str) -> None:
    """Emit a piece of the thought with this ID."""
    if isinstance(text, str) and text:
        await sink.event("thinking", content=text, id=id)


async def put_event(sink: Sink, value: object) -> None:
    """Emit what a step reports: a dictionary with a string `event` under that name, anything else as `custom`."""
    if isinstance(value, Mapping) and isinstance(value.get("event"), str):
        members = dict(value)
        await sink.event(members.pop("event"), **members)
    else:
        await sink.event("custom", plain(value))


async def put_call(sink: Sink, tool: str, input: object, call_id: Optional[str]) -> None:
    """Emit a tool call; arguments that are JSON text become their value."""
    if isinstance(input, str):
        try:
            input = json.loads(input)
        except ValueError:
            pass
    members: dict[str, Any] = {"tool": tool, "input": input}
    if call_id:
        members["call_id"] = call_id
    await sink.event("tool_call", **members)


async def put_result(sink: Sink, tool: str, result: object, call_id: Optional[str], is_error: bool) -> None:
    """Emit a tool's result; a value without JSON becomes its text."""
    members: dict[str, Any] = {"tool": tool, "result": plain(result)}
    if call_id:
        members["call_id"] = call_id
    if is_error:
        members["is_error"] = True
    await sink.event("tool_result", **members)


def plain(value: object) -> Any:
    """Return the value if JSON has it, or its text."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return value


def source(id: str, text: str, meta: Mapping[str, Any], score: Optional[float]) -> Source:
    """Return a passage for the event `sources`, from a framework's document and its metadata."""
    document = next((meta[name] for name in ("document_id", "source", "file_name", "url") if meta.get(name)), id)
    page = meta.get("page_number", meta.get("page_label"))
    members: Source = {
        "chunk_id": id,
        "document_id": str(document),
        "text": text,
        "page_numbers": [int(page)] if isinstance(page, int) or (isinstance(page, str) and page.isdecimal()) else [],
    }
    if isinstance(meta.get("title"), str):
        members["title"] = str(meta["title"])
    if score is not None:
        members["score"] = float(score)
    return members


def citation(source: Source, tool: str) -> CitationRecord:
    """Return the citation of a passage."""
    members: CitationRecord = {
        "document_id": source["document_id"],
        "chunk_id": source["chunk_id"],
        "supporting_quote": source["text"],
        "source_tool": tool,
    }
    if source["page_numbers"]:
        members["page_number"] = source["page_numbers"][0]
    if "score" in source:
        members["score"] = source["score"]
    return members


async def ask(sink: Sink, value: object) -> Any:
    """Ask a human what a graph or a workflow asks: a text, {prompt, kind?, options?}, or tool calls to decide on."""
    members = value if isinstance(value, Mapping) else {}
    if actions := as_list(members.get("action_requests")):
        return await _decide(sink, actions, as_list(members.get("review_configs")))
    whole = value if isinstance(value, str) else json.dumps(plain(value))
    prompt = members.get("prompt") or members.get("question") or whole
    options = [str(option) for option in members.get("options") or ()] or None
    return await sink.ask(str(prompt), kind=members.get("kind"), options=options)


async def _decide(sink: Sink, actions: list[Any], configs: list[Any]) -> Any:
    """Ask whether the tool calls of LangChain's human in the loop may run; `edit` would need other arguments."""
    described = [str(action.get("description") or json.dumps(plain(action))) for action in actions]
    allowed = [config["allowed_decisions"] for config in configs if config.get("allowed_decisions")]
    first = allowed[0] if allowed else ("approve", "reject")
    options = [each for each in first if each != "edit" and all(each in other for other in allowed)]
    answer = await sink.ask("\n".join(described), kind="approval", options=options)
    return {"decisions": [{"type": answer}] * len(actions)}
