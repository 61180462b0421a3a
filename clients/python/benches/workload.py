"""The turn of all benchmarks: 24 events, 312 texts, 1.6 KB of metadata, as in `benches/workload`."""

from __future__ import annotations

import json
from typing import Any

EVENTS: list[dict[str, Any]] = [
    event
    for round in range(6)
    for event in (
        {
            "event": "search",
            "tool": "bm25",
            "query": "how does the commit rule decide between a status and a stream",
        },
        {"event": "retrieval_start", "tool": "bm25", "query": "commit rule status stream", "iteration": round},
        {"event": "retrieval_result", "tool": "bm25", "chunks_found": 8, "duration_ms": 3, "top_score": 7.25},
        {
            "event": "review",
            "iteration": round,
            "verdict": "rejected",
            "feedback": "the evidence names no status code",
        },
    )
]
WORDS = ["The", " first", " frame", " decides", ",", " and", " nothing", " after", " it", " can", " fail", ".", " So"]
TEXTS = [WORDS[at % len(WORDS)] for at in range(312)]
QUOTE = ("Headers are sent when the first frame is there; until then a failure is a status. " * 2).strip()
CITATIONS = [
    {
        "document_id": "0d9f3c52",
        "chunk_id": f"0d9f3c52-{number}",
        "supporting_quote": QUOTE,
        "source_tool": "bm25",
        "page_number": number,
        "score": 7.25,
    }
    for number in range(6)
]
TOOLS = ["bm25_search", "review"]
METADATA = {"citations": CITATIONS, "mode": "hybrid", "tools_used": TOOLS}


def dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
