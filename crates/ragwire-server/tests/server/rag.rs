//! TrustGraph's two services over a library of one document: whole sequences of messages on the
//! socket and over HTTP, streamed and in one piece, their limits, and the graph that follows the
//! library.

use std::sync::Arc;

use http::{Method, StatusCode};
use ragwire_rag::{Library, ParseLimits, parse};
use serde_json::{Value, json};

use crate::support::{JSON, Running, start_on};
use crate::trustgraph::Socket;

const TEXT: &str = "# Turns\n\nA turn uses a bounded queue.\n\n# Queues\n\nThe bounded queue holds frames.\n\n# Frames\n\nFrames replace sentinels.";
const QUESTION: &str = "What does a turn use?";

async fn server() -> (Running, String) {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let parsed = parse("turns.md", TEXT.as_bytes(), &ParseLimits::default()).unwrap();
    let id = library.add("turns.md", &parsed).unwrap().id;
    (start_on(library, |_| {}).await, id)
}

/// Removes values that differ each time, and floats.
fn plain(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["timestamp", "duration_ms", "score", "top_score", "queue_stats"] {
                members.shift_remove(name);
            }
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

async fn on_socket(socket: &mut Socket, service: &str, request: Value) -> Vec<Value> {
    socket
        .send(json!({ "id": "1", "service": service, "flow": "f", "workspace": "w", "request": request }))
        .await;
    let mut messages = socket.answer().await;
    messages.iter_mut().for_each(plain);
    messages
}

async fn over_http(server: &Running, service: &str, request: &Value) -> (StatusCode, Value) {
    let path = format!("/api/v1/flow/default/service/{service}");
    let reply = server
        .call(Method::POST, &path, &[JSON], request.to_string())
        .await;
    let mut body = reply.json();
    plain(&mut body);
    (reply.status, body)
}

/// The steps of a service before its text, and its citation.
fn told(service: &str, id: &str) -> (Vec<Value>, Value) {
    let chunk = format!("{id}-0");
    let quote = "A turn uses a bounded queue.";
    let tool = if service == "graph-rag" {
        "graph_traverse"
    } else {
        "bm25_search"
    };
    let explanation = |explain: &str| {
        json!({
            "event": "graph_explanation", "explain_id": explain, "graph": "urn:graph:retrieval",
            "triples": [{"s": "urn:ragwire:entity:turn", "p": "urn:ragwire:relation:uses", "o": "urn:ragwire:entity:bounded_queue"}],
        })
    };
    let search = |query: &str| {
        [
            json!({"event": "search", "tool": tool, "query": query, "page": 1}),
            json!({"event": "retrieval_start", "tool": tool, "query": query, "iteration": 1}),
        ]
    };
    // Words find every passage, because the name of the document contains one of them.
    let chunks = if service == "graph-rag" { 1 } else { 3 };
    let found = json!({"event": "retrieval_result", "tool": tool, "chunks_found": chunks});
    let mut events = vec![
        json!({"event": "query_analysis", "query": QUESTION, "complexity": "simple", "decomposed": false, "estimated_mode": "direct"}),
    ];
    events.extend(search(QUESTION));
    if service == "graph-rag" {
        events.extend([
            explanation("urn:ragwire:exploration:1"),
            found,
            explanation("urn:ragwire:focus:1"),
        ]);
    } else {
        events.push(found.clone());
        events.extend(search("turn"));
        events.push(found);
        events.push(json!({"event": "rerank_result", "method": "rrf", "input_count": 6, "output_count": 1}));
    }
    let source = json!({
        "chunk_id": chunk, "document_id": id, "text": quote, "page_numbers": [], "title": "turns.md", "level": "L2", "heading": "Turns",
    });
    events.push(json!({"event": "sources", "sources": [source]}));
    events.push(json!({"event": "generation_start", "context_chunks": 1, "total_context_tokens": 6, "model": "extractive"}));
    let citation = json!({"document_id": id, "chunk_id": chunk, "supporting_quote": quote, "source_tool": tool, "heading": "Turns"});
    (events, citation)
}

/// One event as TrustGraph's message.
fn message(service: &str, event: &Value) -> Value {
    let graph = service == "graph-rag";
    let mut response = json!({});
    if event["event"] == "graph_explanation" {
        let triple = |one: &Value| json!({"s": {"t": "i", "i": one["s"]}, "p": {"t": "i", "i": one["p"]}, "o": {"t": "i", "i": one["o"]}});
        // What the clients print, and then the edges.
        let id = &event["explain_id"];
        let iri = |p: &str, o: &str| triple(&json!({"s": id, "p": p, "o": o}));
        let literal = |p: &str, o: &str| json!({"s": {"t": "i", "i": id}, "p": {"t": "i", "i": p}, "o": {"t": "l", "v": o}});
        let is_focus = id.as_str().is_some_and(|id| id.starts_with("urn:ragwire:focus:"));
        let kind = if is_focus { "Focus" } else { "Exploration" };
        let mut triples = vec![
            iri(
                "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
                &format!("https://trustgraph.ai/ns/{kind}"),
            ),
            iri(
                "http://www.w3.org/ns/prov#wasDerivedFrom",
                "urn:ragwire:question:1",
            ),
        ];
        if is_focus {
            triples.push(iri(
                "https://trustgraph.ai/ns/selectedEdge",
                "urn:ragwire:focus:1#0",
            ));
        } else {
            triples.push(literal("https://trustgraph.ai/ns/edgeCount", "1"));
            triples.push(literal("https://trustgraph.ai/ns/entity", "turn"));
        }
        triples.extend(event["triples"].as_array().unwrap().iter().map(triple));
        response["message_type"] = "explain".into();
        response["explain_id"] = event["explain_id"].clone();
        response["explain_graph"] = event["graph"].clone();
        response["explain_triples"] = triples.into();
    } else {
        response["message_type"] = "event".into();
        response["event"] = event.clone();
    }
    if graph {
        response["response"] = "".into();
    }
    (response["end_of_stream"], response["end_of_session"]) = (false.into(), false.into());
    json!({"id": "1", "response": response, "complete": false})
}

#[tokio::test]
async fn each_service_answers_in_its_own_form_streamed_or_not_on_both_transports() {
    let (server, id) = server().await;
    let mut socket = Socket::open(&server).await;
    for service in ["graph-rag", "document-rag"] {
        let graph = service == "graph-rag";
        let (events, citation) = told(service, &id);
        let (mode, tool) = (if graph { "graph" } else { "lexical" }, &citation["source_tool"]);
        let metadata = json!({"citations": [citation], "mode": mode, "tools_used": [tool], "answered": true});
        let text = "A turn uses a bounded queue. [1]";
        let sources = json!([{"uri": id, "title": "turns.md"}]);
        let request = |streaming: Value| {
            // Fields without a counterpart here and the other service's limits are ignored.
            json!({
                "query": QUESTION, "collection": "c", "user": "u", "streaming": streaming, "max-path-length": 1, "entity-limit": 50,
                "max-subgraph-size": 1000, "doc-limit": 1, "fetch-limit": 0, "max-reranker-input": null, "unheard-of": [],
            })
        };

        let mut streamed: Vec<Value> = events.iter().map(|event| message(service, event)).collect();
        let chunk = |text: &str, marker: bool| {
            json!({
                "id": "1", "complete": false,
                "response": {"message_type": "chunk", "response": text, "chunk": text, "end_of_stream": marker, "end_of_session": false},
            })
        };
        streamed.extend([chunk(text, false), chunk("", true)]);
        let mut last = json!({"end_of_stream": false, "end_of_session": true, "model": "extractive", "metadata": metadata.clone()});
        if graph {
            (
                last["message_type"],
                last["response"],
                last["chunk"],
                last["sources"],
            ) = ("chunk".into(), "".into(), "".into(), sources.clone());
        } else {
            last["message_type"] = "end".into();
        }
        streamed.push(json!({"id": "1", "response": last, "complete": true}));
        let mut answered = on_socket(&mut socket, service, request(true.into())).await;
        // What is added for the clients that print explanations.
        let mut added = Vec::new();
        answered.retain(|message| match message["response"]["explain_id"].as_str() {
            Some(id) if !id.contains("exploration") && !id.contains("focus") => {
                // The number of the turn on this socket follows the first one's.
                added.push(id.split('/').next().unwrap().to_owned());
                false
            }
            _ => true,
        });
        assert_eq!(answered, streamed, "{service}");
        let mut expected = vec!["urn:ragwire:question:1", "urn:ragwire:synthesis:1"];
        if !graph {
            drop(expected.splice(1..1, ["urn:ragwire:retrieval:1", "urn:ragwire:retrieval:2"]));
        }
        assert_eq!(added, expected, "{service}");

        let mut whole = json!({"response": text, "end_of_stream": true, "end_of_session": true, "model": "extractive", "metadata": metadata});
        whole["metadata"]["events"] = events.into();
        if graph {
            (whole["message_type"], whole["sources"]) = ("chunk".into(), sources);
        }
        for streaming in [Value::Bool(false), Value::Null] {
            let one = json!({"id": "1", "response": whole, "complete": true});
            assert_eq!(
                on_socket(&mut socket, service, request(streaming)).await,
                [one],
                "{service}"
            );
        }
        for streaming in [Value::Bool(false), Value::Bool(true), Value::Null] {
            let answered = over_http(&server, service, &request(streaming)).await;
            assert_eq!(answered, (StatusCode::OK, whole.clone()), "{service}");
        }
    }
}

/// The number of triples per kind of explanation, and of sources.
fn counts(body: &Value) -> (usize, usize, usize) {
    let events = body["metadata"]["events"].as_array().unwrap();
    let explained = |what: &str| {
        let of = |event: &&Value| {
            event["explain_id"]
                .as_str()
                .is_some_and(|id| id.starts_with(&format!("urn:ragwire:{what}:")))
        };
        events
            .iter()
            .filter(of)
            .map(|event| event["triples"].as_array().unwrap().len())
            .sum()
    };
    let sources = events.iter().find(|event| event["event"] == "sources");
    let sources = sources.map_or(0, |event| event["sources"].as_array().unwrap().len());
    (explained("exploration"), explained("focus"), sources)
}

#[tokio::test]
async fn limits_of_a_request_are_enforced() {
    let (server, _) = server().await;
    for (limits, wanted) in [
        (json!({"max-path-length": 1}), (1, 1, 1)),
        (json!({"max-path-length": 2}), (3, 3, 2)),
        (json!({"max-path-length": 3}), (5, 5, 3)),
        (json!({"max-path-length": 3, "max-subgraph-size": 2}), (2, 2, 2)),
        (json!({"max-path-length": 3, "edge-limit": 1}), (5, 1, 1)),
        (json!({"max-path-length": 3, "edge-score-limit": 2}), (5, 2, 2)),
        (
            json!({"max-path-length": 10, "max-subgraph-size": 5000, "entity-limit": 1, "triple-limit": 1}),
            (3, 3, 3),
        ),
    ] {
        let mut request = limits.clone();
        request["query"] = QUESTION.into();
        let (status, body) = over_http(&server, "graph-rag", &request).await;
        assert_eq!((status, counts(&body)), (StatusCode::OK, wanted), "{limits}");
    }
    for (limit, wanted) in [(1, 1), (2, 2), (200, 2)] {
        let request = json!({"query": "Which queue is bounded?", "doc-limit": limit});
        let (_, body) = over_http(&server, "document-rag", &request).await;
        assert_eq!(counts(&body), (0, 0, wanted), "{limit}");
    }
}

#[tokio::test]
async fn hostile_limits_are_refused_in_trustgraph_s_own_form() {
    let (server, _) = server().await;
    let mut socket = Socket::open(&server).await;
    let graph = [
        ("entity-limit", 1, 1_000),
        ("triple-limit", 1, 1_000),
        ("max-subgraph-size", 1, 5_000),
        ("max-path-length", 1, 10),
        ("edge-score-limit", 1, 1_000),
        ("edge-limit", 1, 500),
        ("max-reranker-input", 1, 2_000),
    ];
    let documents = [("doc-limit", 1, 200), ("fetch-limit", 0, 1_000)];
    let cases = graph
        .iter()
        .map(|one| ("graph-rag", one))
        .chain(documents.iter().map(|one| ("document-rag", one)));
    for (service, (name, least, most)) in cases {
        let mut bad = vec![
            json!(-1),
            json!(most + 1),
            json!(u64::MAX),
            json!(1e99),
            json!(1.5),
            json!("5"),
            json!([1]),
            json!(true),
        ];
        if *least > 0 {
            bad.push(json!(0));
        }
        for value in bad {
            let request = json!({"query": QUESTION, "streaming": true, *name: value});
            let message = format!("`{name}` must be a whole number from {least} to {most}.");
            let refused =
                json!({"id": "1", "error": {"message": message, "type": "error"}, "complete": true});
            assert_eq!(
                on_socket(&mut socket, service, request.clone()).await,
                [refused],
                "{value}"
            );
            let (status, body) = over_http(&server, service, &request).await;
            let error = json!({"message": message, "type": "request-error"});
            assert_eq!(
                (status, &body["error"], &body["end_of_session"]),
                (StatusCode::OK, &error, &json!(true))
            );
        }
        for value in [*least, *most] {
            let (_, body) = over_http(&server, service, &json!({"query": QUESTION, *name: value})).await;
            assert_eq!(body["error"], Value::Null, "{name} {value}: {body}");
        }
    }
    let (status, body) = over_http(
        &server,
        "graph-rag",
        &json!({"query": QUESTION, "streaming": "yes"}),
    )
    .await;
    let error = json!({"message": "`streaming` is not a boolean.", "type": "request-error"});
    assert_eq!((status, &body["error"]), (StatusCode::OK, &error));
    // None of these started a turn, and the socket stays open.
    assert_eq!(
        on_socket(&mut socket, "graph-rag", json!({"query": QUESTION}))
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn the_graph_follows_uploads_and_removals() {
    let (server, first) = server().await;
    let robins = json!({"query": "What is a robin?"});
    let text = |body: &Value| body["response"].as_str().unwrap().to_owned();
    let none = "The documents do not answer this question.";
    assert_eq!(text(&over_http(&server, "graph-rag", &robins).await.1), none);
    let added = server.upload("birds.md", "A robin is a small bird.").await;
    assert_eq!(added.status, StatusCode::CREATED);
    let id = added.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    let graph = server.graph.as_deref().unwrap().graph();
    assert_eq!(graph.size().documents, 2);
    assert_eq!(
        text(&over_http(&server, "graph-rag", &robins).await.1),
        "A robin is a small bird. [1]"
    );
    for id in [id, first] {
        let removed = server
            .call(Method::DELETE, &format!("/v1/documents/{id}"), &[], "")
            .await;
        assert_eq!(removed.status, StatusCode::NO_CONTENT);
    }
    let empty = "There are no documents to answer from yet.";
    assert_eq!(text(&over_http(&server, "graph-rag", &robins).await.1), empty);
    assert_eq!(graph.size(), Default::default());
}

#[tokio::test]
async fn a_server_without_a_graph_reports_it() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_on(library, |settings| settings.graph = false).await;
    assert!(server.graph.is_none());
    let message = "This server keeps no graph; start it with --graph.";
    let error = json!({"message": message, "type": "graph-rag-error"});
    let mut socket = Socket::open(&server).await;
    let said = on_socket(
        &mut socket,
        "graph-rag",
        json!({"query": QUESTION, "streaming": true}),
    )
    .await;
    assert_eq!(
        (said.len(), &said[0]["error"], &said[0]["complete"]),
        (1, &error, &json!(true))
    );
    let (status, body) = over_http(&server, "graph-rag", &json!({"query": QUESTION})).await;
    assert_eq!((status, &body["error"]), (StatusCode::OK, &error));
    let (_, body) = over_http(&server, "document-rag", &json!({"query": QUESTION})).await;
    assert_eq!(body["response"], "There are no documents to answer from yet.");
    let asked = json!({"prompt": QUESTION, "options": {"service": {"graph_rag": {}}}});
    let reply = server
        .call(Method::POST, "/v1/turns", &[JSON], asked.to_string())
        .await;
    assert_eq!(
        (reply.status, &*reply.code()),
        (StatusCode::NOT_FOUND, "no_graph")
    );
}
