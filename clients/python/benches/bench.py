"""The cost of a turn in Python, beside named baselines in the same run. Linux only.

    python bench.py [cpu] [latency] [memory]

Each server is uvicorn with one worker in its own process (uvloop and httptools). `cpu` is the
processor time of that process per turn at 32 connections, the median of rounds in which the servers
take turns. `latency` is from the moment at which the producer has made an item to its arrival, at
200 streams with an item every 50 ms. `memory` is the growth of the resident memory per open stream
at 500 silent streams.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from collections.abc import Iterator
from pathlib import Path

from workload import CITATIONS, EVENTS, TEXTS

CONNECTIONS = 32
TURNS = int(os.environ.get("TURNS", "320"))
ROUNDS = int(os.environ.get("ROUNDS", "7"))
STREAMS, PACE = 200, 0.05
OPEN = 500
BODY = b'{"prompt":"q"}'
# name -> (path, Accept, the baseline that it is compared with, the aim)
SERVERS = {
    "starlette": ("/", "text/plain", None, None),
    "fastapi": ("/", "text/plain", None, None),
    "sse_starlette": ("/", "text/event-stream", None, None),
    "ragwire_framed": ("/", "text/plain", "starlette", 1 / 4),
    "ragwire_journal": ("/v1/turns", "text/plain", "starlette", 1 / 3),
    "ragwire_sse": ("/", "text/event-stream", "sse_starlette", 1 / 10),
}


class Server:
    """One uvicorn process."""

    def __init__(self, name: str, port: int, **environment: str) -> None:
        self.name, self.port = name, port
        self.path, self.accept, self.baseline, self.aim = SERVERS[name]
        command = [sys.executable, "-m", "uvicorn", f"servers:{name}", "--port", str(port), "--lifespan", "off", "--timeout-keep-alive", "600"]
        command += ["--no-access-log", "--log-level", "warning", "--loop", "uvloop", "--http", "httptools"]
        self.process = subprocess.Popen(
            command, cwd=Path(__file__).parent, env={**os.environ, **environment}
        )

    def cpu(self) -> float:
        """Seconds of processor time of all threads, which the scheduler counts in nanoseconds."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def resident(self) -> int:
        """Bytes of resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found
        return int(found[1]) * 1024

    async def connect(self) -> Connection:
        for _ in range(600):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
                return Connection(self, reader, writer)
            except OSError:
                await asyncio.sleep(0.1)
        raise RuntimeError(f"{self.name} did not start")


class Connection:
    """One HTTP/1.1 connection; it reads as little as it can."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.name, self.reader, self.writer = server.name, reader, writer
        head = f"POST {server.path} HTTP/1.1\r\nhost: x\r\naccept: {server.accept}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
        self.request = head.encode() + BODY

    async def begin(self) -> None:
        self.writer.write(self.request)
        await self.reader.readuntil(b"\r\n\r\n")

    async def turn(self) -> bytes:
        """Ask, and return the body with its chunk sizes."""
        self.writer.write(self.request)
        whole = b""
        while not whole.endswith(b"\r\n0\r\n\r\n"):
            part = await self.reader.read(1 << 20)
            assert part, (self.name, whole[-300:])
            whole += part
        return whole


def check(server: Server, whole: bytes) -> None:
    """Every server sends the same turn."""
    head, _, rest = whole.partition(b"\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n")[0], head
    body, sizes = b"", rest
    while sizes:
        size, _, sizes = sizes.partition(b"\r\n")
        body, sizes = body + sizes[: int(size, 16)], sizes[int(size, 16) + 2 :]
    assert len(re.findall(rb'"event":"', body)) == len(EVENTS), server.name
    if server.accept == "text/plain":
        text = body.partition(b"\x1d")[2].partition(b"\x1e")[0]
    else:
        text = b"".join(re.findall(rb'"text":"([^"]*)"', body))
    assert text.decode() == "".join(TEXTS), server.name
    assert body.count(b'"chunk_id"') == len(CITATIONS), server.name


@contextmanager
def running(**environment: str) -> Iterator[list[Server]]:
    only = os.environ.get("ONLY", "").split(",") if os.environ.get("ONLY") else list(SERVERS)
    servers = [Server(name, 9600 + at, **environment) for at, name in enumerate(only)]
    try:
        yield servers
    finally:
        for server in servers:
            server.process.terminate()
        for server in servers:
            server.process.wait()


async def burst(server: Server, connections: list[Connection], turns: int) -> float:
    """Run turns on all connections; return microseconds of processor time per turn."""
    before = server.cpu()

    async def repeat(connection: Connection) -> None:
        for _ in range(turns // CONNECTIONS):
            await connection.turn()

    await asyncio.gather(*map(repeat, connections))
    return (server.cpu() - before) / (turns // CONNECTIONS * CONNECTIONS) * 1e6


async def cpu() -> None:
    with running() as servers:
        connections = {}
        for server in servers:
            connections[server.name] = [await server.connect() for _ in range(CONNECTIONS)]
            check(server, await connections[server.name][0].turn())
            await burst(server, connections[server.name], TURNS)
        times: dict[str, list[float]] = {server.name: [] for server in servers}
        for _ in range(ROUNDS):
            for server in servers:
                times[server.name].append(await burst(server, connections[server.name], TURNS))
    medians = {name: statistics.median(each) for name, each in times.items()}
    print(f"\nserver CPU per turn, median of {ROUNDS} x {TURNS} turns over {CONNECTIONS} connections")
    for server in servers:
        line = f"{server.name:>16} {medians[server.name]:9.0f} us"
        if server.baseline in medians:
            ratio = medians[server.name] / medians[server.baseline]
            rounds = [mine / theirs for mine, theirs in zip(times[server.name], times[server.baseline])]
            line += f"   {ratio:.3f} of {server.baseline}, rounds {min(rounds):.3f} to {max(rounds):.3f} (aim {server.aim:.3f})"
        print(line, flush=True)


async def latency() -> None:
    print(f"\nfrom item to arrival at {STREAMS} streams, an item every {PACE * 1000:.0f} ms, in microseconds")
    only = os.environ.get("ONLY", "").split(",") if os.environ.get("ONLY") else list(SERVERS)
    for at, name in enumerate(only):
        server = Server(name, 9700 + at, PACE=str(PACE), STAMPS="1")
        delays: list[int] = []

        async def read(server: Server, delays: list[int]) -> None:
            connection = await server.connect()
            connection.writer.write(connection.request)
            tail = b""
            while not tail.endswith(b"\r\n0\r\n\r\n"):
                part = await connection.reader.read(1 << 20)
                now = time.monotonic_ns()
                delays += [now - int(made) for made in re.findall(rb"(\d{9,});", part)]
                tail = (tail + part)[-16:]

        try:
            await server.connect()
            await asyncio.gather(*(read(server, delays) for _ in range(STREAMS)))
            delays.sort()
            p50, p99 = (delays[int(len(delays) * part)] / 1000 for part in (0.5, 0.99))
            print(f"{name:>16} p50 {p50:7.0f}   p99 {p99:7.0f}   ({len(delays)} items)", flush=True)
        finally:
            server.process.terminate()
            server.process.wait()


async def memory() -> None:
    print(f"\nresident memory per open stream, {OPEN} silent streams, in KiB")
    with running(PACE="1") as servers:
        for server in servers:
            warm = [await server.connect() for _ in range(20)]
            await asyncio.gather(*(connection.begin() for connection in warm))
            before = server.resident()
            connections = [await server.connect() for _ in range(OPEN)]
            await asyncio.gather(*(connection.begin() for connection in connections))
            await asyncio.sleep(1)
            growth = (server.resident() - before) / OPEN / 1024
            print(f"{server.name:>16} {growth:6.1f}", flush=True)
            for connection in connections + warm:
                connection.writer.close()


if __name__ == "__main__":
    for name in sys.argv[1:] or ["cpu", "latency", "memory"]:
        asyncio.run({"cpu": cpu, "latency": latency, "memory": memory}[name]())
