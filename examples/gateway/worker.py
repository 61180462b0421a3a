"""An orchestrator as a child process, for `ragwire-server --orchestrator 'exec:python3 worker.py'`."""

import json
import sys


def say(**line):
    print(json.dumps(line), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    turn, question = message["turn"], message.get("question")
    if question is None:
        continue  # `cancel`, after its turn has ended, or an answer of a human
    say(turn=turn, event="search", tool="words", query=question["prompt"])
    for word in f"You asked: {question['prompt']}".split(" "):
        say(turn=turn, text=word + " ")
    say(turn=turn, end="completed")
    print("answered a question", file=sys.stderr)
