"""The README, used as a reader would."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import fastapi

import ragwire
from conftest import PATIENCE, wait_until

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_the_first_app_runs_and_answers_its_commands(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(blocks("python")[0])
    install, serve, commands = blocks("sh")
    assert install == "pip install ragwire fastapi uvicorn\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", *shlex.split(serve), "--port", str(port)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_up() -> bool:
        assert server.poll() is None
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) == 0

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
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_the_blocks_of_a_server_run_one_after_the_other() -> None:
    names: dict[str, object] = {}
    for block in blocks("python")[:3]:
        exec(block, names)
    assert isinstance(names["endpoints"], ragwire.Endpoints)
    assert isinstance(names["app"], fastapi.FastAPI)
