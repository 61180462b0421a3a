"""Ports for servers that tests start as processes, and that cannot be given an open socket."""

import random
import socket

# Below the ports that the system assigns by itself (32768 on Linux). Of those, another test running at the
# same time may get the port in the second that a server needs to start, and then answers in its place.
PORTS = range(20_000, 32_000)


def free_port() -> int:
    while True:
        with socket.socket() as listener:
            port = random.choice(PORTS)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
