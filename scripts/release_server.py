"""Starts a release server, for the scripts that measure one."""
import os
import re
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))


def binary():
    """The binary that SERVER names, or a new release build."""
    if "SERVER" in os.environ:
        return os.environ["SERVER"]
    subprocess.run(["cargo", "build", "--release", "-p", "ragwire-server"], cwd=ROOT, check=True)
    return os.path.join(TARGET, "release", "ragwire-server")


def start(folder, *options):
    """Starts a server with its data and its log in this folder. Returns the process and its address."""
    log = open(os.path.join(folder, "log"), "w+")
    command = [binary(), "--listen", "127.0.0.1:0", "--data", os.path.join(folder, "data"), *options]
    process = subprocess.Popen(command, stdout=log, stderr=log)
    while True:
        with open(log.name) as written:
            said = written.read()
        found = re.search(r"answers at http://([\d.]+):(\d+)", said)
        if found:
            return process, (found[1], int(found[2]))
        if process.poll() is not None:
            sys.exit(f"the server does not start:\n{said}")
        time.sleep(0.05)
