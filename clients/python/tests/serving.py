"""Serves an ASGI app with uvicorn on a thread of its own, and asks it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ragwire
from conftest import Server
from ragwire import CustomItem, EndItem, EventItem, TextItem


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Yield the URL of a running server."""
    server = Server(app, lifespan="off")
    try:
        yield server.url
    finally:
        server.close()


class Shown:
    """What a reader shows of a turn."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.text = ""
        self.end: EndItem | None = None

    @property
    def metadata(self) -> Any:
        assert self.end is not None
        return self.end.metadata

    @property
    def names(self) -> list[str]:
        return [event["event"] for event in self.events]


def ask(answer: Any, prompt: str, *answers: object, **members: Any) -> Shown:
    """Ask an orchestrator over HTTP; its questions to a human get `answers`, one after the other."""
    shown, rest = Shown(), list(answers)
    with served(ragwire.Endpoints(answer)) as url, ragwire.Client(url) as client:
        reading = client.ask(prompt, **members)
        for item in reading:
            if isinstance(item, TextItem):
                shown.text += item.text
            elif isinstance(item, CustomItem):
                shown.events.append({"event": item.name, "data": item.data})
            elif isinstance(item, EventItem):
                event: dict[str, Any] = dict(item.event)
                del event["timestamp"]
                shown.events.append(event)
                if item.event["event"] == "input_requested":
                    assert reading.turn is not None
                    assert client.answer(reading.turn, item.event["request_id"], rest.pop(0))
            elif isinstance(item, EndItem):
                shown.end = item
    assert rest == []
    return shown
