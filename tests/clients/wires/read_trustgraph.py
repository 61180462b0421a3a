"""Plays messages to the clients of PyPI `trustgraph-base` and prints their results.

Standard input is a JSON array of plays {id, kind, messages, with}: `messages` are texts for a socket, or one body for HTTP; `with` is
stream, explain, resolve, async, whole, async_whole, http or two. Standard output is a JSON array: {seen, error, asked} of each.

With a URL as its argument, the clients ask that server instead: {id, kind, query, with}, `queries` for as many at once with two, and `limits`
by their names in Python with stream and http.
"""

import asyncio
import itertools
import json
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from trustgraph.api import Api, ExplainabilityClient, ProvenanceEvent
from websockets.sync.server import serve

play = None
asked = []


def on_socket(socket):
    for text in socket:
        message = json.loads(text)
        if message.get("type") == "auth":
            socket.send('{"type":"auth-ok","default_workspace":"default"}')
            continue
        asked.append(message)
        # Two concurrent requests are answered after both have arrived.
        if len(asked) == (2 if play["with"] == "two" else 1):
            for text in play["messages"]:
                socket.send(text)


class OnPost(BaseHTTPRequestHandler):
    def do_POST(self):
        asked.append({"path": self.path, "request": json.loads(self.rfile.read(int(self.headers["content-length"])))})
        body = play["messages"][0].encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def figures(chunk):
    return {name: getattr(chunk, name) for name in ("in_token", "out_token", "model", "sources")}


def shown(item):
    if isinstance(item, ProvenanceEvent):
        return {"explain": [item.explain_id, item.explain_graph, item.triples], "entity": asdict(item.entity) if item.entity else None}
    return {"text": item.content, "end_of_stream": item.end_of_stream, **figures(item)}


def whole(result):
    return {"text": result.text, **figures(result)}


async def at_once(api, seen):
    async with api.async_socket() as socket:
        flow = socket.flow("default")

        async def read(into, ask, query):
            async for text in await ask(query=query, collection="c", streaming=True):
                into.append(text)

        queries = play.get("queries", ["?", "?"])
        seen += [[] for _ in queries]
        asks = itertools.cycle([flow.graph_rag, flow.document_rag])
        await asyncio.gather(*map(read, seen, asks, queries))


async def alone(api, ask, streaming, seen):
    async with api.async_socket() as socket:
        socket._next_request_id = lambda: play["id"]
        result = await getattr(socket.flow("default"), ask)(query=play.get("query", "?"), collection="c", streaming=streaming)
        if not streaming:
            return seen.append(result)
        async for text in result:
            seen.append(text)


def read(url, seen):
    api, ask = Api(url), play["kind"].replace("-", "_")
    match play["with"]:
        case "two":
            return asyncio.run(at_once(api, seen))
        case "async" | "async_whole":
            return asyncio.run(alone(api, ask, play["with"] == "async", seen))
        case "http":
            flow = api.flow().id("default")
            return seen.append(whole(getattr(flow, ask)(query=play.get("query", "?"), collection="c", **play.get("limits", {}))))
    socket = api.socket()
    # The client chooses the ID; one that asks twice at a time needs two.
    if play["with"] != "resolve":
        socket._next_request_id = lambda: play["id"]
    flow = socket.flow("default")
    try:
        match play["with"]:
            case "stream":
                for chunk in getattr(flow, ask)(query=play.get("query", "?"), collection="c", streaming=True, **play.get("limits", {})):
                    seen.append(shown(chunk))
            case "explain":
                for item in getattr(flow, ask + "_explain")(query=play.get("query", "?"), collection="c"):
                    seen.append(shown(item))
            case "resolve":
                # What `tg-invoke-graph-rag --explainable` asks for while the answer arrives.
                client = ExplainabilityClient(flow, retry_delay=0.01)
                for item in getattr(flow, ask + "_explain")(query=play.get("query", "?"), collection="c"):
                    if not isinstance(item, ProvenanceEvent):
                        continue
                    entity = client.fetch_entity(item.explain_id, graph=item.explain_graph, collection="c")
                    edges = []
                    if item.entity.entity_type == "focus":
                        focus = client.fetch_focus_with_edges(item.explain_id, graph=item.explain_graph, collection="c")
                        edges = [client.resolve_edge_labels(selection.edge, "c") for selection in focus.edge_selections]
                    seen.append({"same": asdict(entity) == asdict(item.entity), "type": entity.entity_type, "edges": edges})
            case "whole":
                seen.append(whole(getattr(flow, ask)(query=play.get("query", "?"), collection="c")))
    finally:
        socket.close()


sockets = serve(on_socket, "127.0.0.1", 0)
posts = ThreadingHTTPServer(("127.0.0.1", 0), OnPost)
for server in (sockets, posts):
    threading.Thread(target=server.serve_forever, daemon=True).start()
# The synchronous client uses the loop of its thread, which asyncio.run() removes.
results = []
for play in json.load(sys.stdin):
    asked.clear()
    seen, error = [], None
    port = posts.server_port if play["with"] == "http" else sockets.socket.getsockname()[1]
    asyncio.set_event_loop(asyncio.new_event_loop())
    try:
        read(sys.argv[1] if len(sys.argv) > 1 else f"http://127.0.0.1:{port}/", seen)
    except Exception as raised:
        error = {"name": type(raised).__name__, "message": str(raised), "type": getattr(raised, "error_type", None)}
    results.append({"seen": seen, "error": error, "asked": list(asked)})
print(json.dumps(results))
