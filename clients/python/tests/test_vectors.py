"""Runs the vectors that the Rust and the JavaScript decoders run too, whole and cut at every byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import ragwire
from ragwire import CustomItem, DecodeError, EndItem, Event, EventItem, SnapshotItem, TextItem, TruncatedError, events

VECTORS = Path(__file__).parents[3] / "tests" / "vectors"
FOLDERS: dict[str, Any] = {
    "framed": "framed",
    "sse": "sse",
    "ndjson": "ndjson",
    "ai_sdk_streams": "ai_sdk",
    "ag_ui_streams": "ag_ui",
    "openai_streams": "openai",
    "responses_streams": "responses",
    "ollama_streams": "ollama",
    "langgraph_streams": "langgraph",
}
"""Streams and the frames that they decode to."""
WRITTEN: dict[str, Any] = {
    "ai_sdk": "ai_sdk",
    "ag_ui": "ag_ui",
    "openai": "openai",
    "responses": "responses",
    "ollama": "ollama",
    "langgraph": "langgraph",
    "forge": "forge",
    "session_chat": "session_chat",
    "eve": "eve",
    "trustgraph": "trustgraph",
}
"""Streams that our encoders write; what decoding them loses is tested in Rust."""


def files(folders: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(wire, file, id=f"{folder}-{file.stem}")
        for folder, wire in folders.items()
        for file in sorted((VECTORS / folder).glob("*.json"))
    ]


def event_json(item: EventItem | CustomItem) -> dict[str, Any]:
    if isinstance(item, EventItem):
        return dict(item.event)
    json: dict[str, Any] = {"event": item.name, "data": item.data}
    if item.name in Event.NAMES:
        # An event with a known name and another shape: PROTOCOL.md allows both ways to hand it on.
        json = {"event": item.name, **item.data}
    if item.timestamp is not None:
        json["timestamp"] = item.timestamp
    return json


def add(frames: list[Any], items: list[ragwire.Item], wire: str) -> None:
    for item in items:
        assert (item.index is not None) == (wire in ("sse", "ndjson"))
        if isinstance(item, TextItem):
            assert item.text
            if wire == "framed" and frames and "text" in frames[-1]:
                frames[-1] = {"text": frames[-1]["text"] + item.text}
            else:
                frames.append({"text": item.text})
        elif isinstance(item, SnapshotItem):
            assert item.index is not None
            frame: dict[str, Any] = {
                "frames": item.index + 1,
                "events": [event_json(event) for event in item.events],
                "text": item.text,
            }
            if item.events_dropped:
                frame["events_dropped"] = item.events_dropped
            frames.append({"snapshot": frame})
        elif isinstance(item, EndItem):
            end: dict[str, Any] = {"status": item.status, "metadata": item.metadata}
            if item.error is not None:
                end["error"] = item.error
            if item.timing is not None:
                end["timing"] = item.timing
            frames.append({"end": end})
        else:
            frames.append({"event": event_json(item)})


def decode(wire: Any, chunks: list[bytes], **options: Any) -> tuple[list[Any], str]:
    decoder = ragwire.Decoder(wire, **options)
    frames: list[Any] = []
    for chunk in chunks:
        add(frames, decoder.feed(chunk), wire)
    try:
        for item in decoder.finish():
            add(frames, [item], wire)
    except DecodeError as error:
        assert decoder.has_failed
        return frames, f"error:{error.code}"
    except TruncatedError as error:
        return frames, f"truncated:{error.phase}"
    return frames, "complete"


def check_cuts(wire: Any, whole: bytes, expected: Any, **options: Any) -> None:
    assert decode(wire, [whole], **options) == expected
    assert decode(wire, [whole[at : at + 1] for at in range(len(whole))], **options) == expected, "byte by byte"
    for at in range(len(whole) + 1):
        assert decode(wire, [whole[:at], b"", whole[at:]], **options) == expected, f"cut at {at}"


@pytest.mark.parametrize(("wire", "file"), files(FOLDERS))
def test_a_stream_decodes_to_its_frames_however_it_is_cut(wire: str, file: Path) -> None:
    vector = json.loads(file.read_text())
    whole = vector["bytes"].encode() if "bytes" in vector else bytes.fromhex(vector["bytes_hex"])
    options = dict(vector.get("limits", {}))
    if "answer_nodes" in vector:
        options["answer_nodes"] = vector["answer_nodes"]
    check_cuts(wire, whole, (vector["frames"], vector["finish"]), **options)
    if vector["finish"] == "complete" and wire in ("framed", "ndjson"):
        assert decode(wire, [whole, b"x"], **options) == (vector["frames"], "error:trailing_bytes")
        for at in range(len(whole)):
            frames, finish = decode(wire, [whole[:at]], **options)
            assert finish.startswith("truncated"), f"the first {at} bytes"
            assert not any("end" in frame for frame in frames)


@pytest.mark.parametrize(("wire", "file"), files(WRITTEN))
def test_what_our_encoders_write_decodes_alike_however_it_is_cut(wire: str, file: Path) -> None:
    vector = json.loads(file.read_text())
    whole = "".join(vector["chunks"]).encode()
    if len(whole) > 4096:
        # A cut at every byte of these would take minutes; the Rust tests have them.
        whole = whole[:4096]
    frames, finish = decode(wire, [whole])
    check_cuts(wire, whole, (frames, finish))


def test_every_folder_has_vectors() -> None:
    for folder in [*FOLDERS, *WRITTEN]:
        assert len(list((VECTORS / folder).glob("*.json"))) >= 5, folder
    # Plain text has no end and no rules, hence no vectors.
    assert {*FOLDERS.values(), *WRITTEN.values(), "plain"} == set(ragwire.DECODED_WIRES)


def test_every_event_has_a_type() -> None:
    types = events.Event.__args__  # type: ignore[attr-defined]
    assert [get_type_hints(type)["event"].__args__[0] for type in types] == list(Event.NAMES)


@pytest.mark.parametrize(("wire", "file"), files({name: name for name in ("framed", "sse", "ndjson")}))
def test_typed_events_have_the_members_of_their_type(wire: Any, file: Path) -> None:
    types = dict(zip(Event.NAMES, events.Event.__args__))  # type: ignore[attr-defined]
    vector = json.loads(file.read_text())
    whole = vector["bytes"].encode() if "bytes" in vector else bytes.fromhex(vector["bytes_hex"])
    for item in ragwire.Decoder(wire, **vector.get("limits", {})).feed(whole):
        if isinstance(item, EventItem):
            members = get_type_hints(types[item.name], include_extras=True)
            assert set(item.event) <= set(members)
            required = {name for name, type in members.items() if "NotRequired" not in str(type)}
            assert required <= set(item.event)
