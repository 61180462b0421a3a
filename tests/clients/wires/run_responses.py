"""Uses the Responses API of PyPI `openai` against the server at a URL and prints what it gets."""

import json
import sys

from openai import OpenAI

client = OpenAI(api_key="x", base_url=sys.argv[1] + "/v1", max_retries=0)
deltas = ""
with client.responses.stream(model="ragwire", input="What is the commit rule?") as stream:
    for event in stream:
        if event.type == "response.output_text.delta":
            deltas += event.delta
    response = stream.get_final_response()
message = next(item for item in response.output if item.type == "message")
following = client.responses.create(model="ragwire", input="And why?", previous_response_id=response.id)
kept = client.responses.create(model="ragwire", input="fault:no-events", background=True, stream=True)
for event in kept:
    if event.type == "response.created":
        kept_id = event.response.id
print(
    json.dumps(
        {
            "status": response.status,
            "kinds": [item.type for item in response.output],
            "text": response.output_text,
            "deltas": deltas,
            "annotations": len(message.content[0].annotations),
            "next": following.status,
            "retrieved": client.responses.retrieve(kept_id).status,
        }
    )
)
