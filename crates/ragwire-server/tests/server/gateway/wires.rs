//! Orchestrators that speak the protocol of another system: what they are asked, and the streams of
//! `tests/vectors` over a real socket.

use std::path::Path;

use http::Method;
use ragwire_server::settings::engines::Label;
use serde_json::{Value, json};

use super::double::{Double, Step, chunk, head, last};
use super::gateway;
use crate::support::{JSON, Reply, Running};

const SSE: &str = "text/event-stream";

async fn ask(server: &Running) -> Reply {
    let headers = [JSON, ("accept", "application/x-ndjson")];
    let body = json!({"prompt": "Why?"}).to_string();
    server.call(Method::POST, "/v1/turns", &headers, body).await
}

/// What a reader has of an answer: its text, and the code of a failure, `stopped` or nothing.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    text: String,
    code: Option<String>,
}

impl Outcome {
    fn event(&mut self, event: &Value) {
        if event["event"] == "retract" {
            let kept = usize::try_from(event["kept"].as_u64().unwrap()).unwrap();
            self.text = self.text.chars().take(kept).collect();
        }
    }

    fn end(&mut self, status: &Value, error: &Value) {
        self.code = match status.as_str().unwrap() {
            "completed" => None,
            "failed" => Some(error["code"].as_str().unwrap().to_owned()),
            other => Some(other.to_owned()),
        };
    }

    /// Of the frames and the end of a vector.
    fn expected(vector: &Value) -> Self {
        let (mut outcome, mut has_ended) = (Self::default(), false);
        for frame in vector["frames"].as_array().unwrap() {
            outcome.text += frame["text"].as_str().unwrap_or_default();
            outcome.event(&frame["event"]);
            if let Some(end) = frame.get("end") {
                outcome.end(&end["status"], &end["error"]);
                has_ended = true;
            }
        }
        if !has_ended {
            let finish = vector["finish"].as_str().unwrap();
            outcome.code = Some(match finish {
                "error:line_too_long" => "upstream_too_large".to_owned(),
                _ if finish.starts_with("error:") => "upstream_unreadable".to_owned(),
                _ => "upstream_truncated".to_owned(),
            });
        }
        outcome
    }

    fn received(reply: &Reply) -> Self {
        let mut outcome = Self::default();
        if reply.status != 200 {
            outcome.code = Some(reply.code());
            return outcome;
        }
        for line in reply
            .body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line: Value = serde_json::from_slice(line).unwrap();
            if line.get("event").is_some() {
                outcome.event(&line);
            } else if let Some(status) = line.get("end") {
                outcome.end(status, &line["error"]);
            } else {
                outcome.text += line["text"].as_str().unwrap();
            }
        }
        outcome
    }
}

/// Every recorded stream of another system gives behind the gateway what its decoder gives.
#[tokio::test]
async fn streams_of_other_systems_arrive_through_the_gateway() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    for (wire, content_type, least) in [
        ("langgraph", SSE, 20),
        ("responses", SSE, 8),
        ("openai", SSE, 15),
        ("ag_ui", SSE, 15),
        ("ai_sdk", SSE, 15),
        ("ollama", "application/x-ndjson", 5),
    ] {
        let entries = std::fs::read_dir(folder.join(format!("{wire}_streams"))).unwrap();
        let read = |entry: std::io::Result<std::fs::DirEntry>| -> Value {
            serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap()
        };
        // The nodes of the answer are an option of the library, and at a question the turn waits for its
        // human: see `langgraph.rs` and `asks.rs`.
        let asks = match wire {
            "ag_ui" | "ai_sdk" => "input_requested",
            _ => "__interrupt__",
        };
        let vectors: Vec<Value> = entries
            .map(read)
            .filter(|vector| vector.get("answer_nodes").is_none() && !vector.to_string().contains(asks))
            .collect();
        assert!(vectors.len() >= least, "only {} vectors of {wire}", vectors.len());
        let script = |vector: &Value| -> Vec<Step> {
            let stream = vector["bytes"].as_str().unwrap();
            let chunks = stream.split_inclusive("\n\n").map(chunk);
            let begin = std::iter::once(head(content_type));
            begin.chain(chunks).chain([last(), Step::Keep]).collect()
        };
        let double = Double::start(vectors.iter().map(script).collect()).await;
        let server = gateway(&double.url, |settings| {
            settings.orchestrator_wire = Label(Some(wire.to_owned()));
        });
        for vector in vectors {
            let reply = ask(&server).await;
            assert_eq!(
                Outcome::received(&reply),
                Outcome::expected(&vector),
                "{wire} {}: {}\n{:?}",
                vector["id"],
                vector["why"],
                reply.body
            );
        }
    }
}

/// LangGraph's server and OpenAI's Responses: the second question in a session has the first one and
/// its answer, and retrieval arrives as events.
#[tokio::test]
async fn langgraph_and_responses_get_the_conversation_and_their_steps_arrive() {
    let langgraph = concat!(
        "event: metadata\ndata: {\"run_id\":\"r\",\"attempt\":1}\n\n",
        "event: custom\ndata: {\"event\":\"search\",\"tool\":\"bm25\",\"query\":\"why\"}\n\n",
        "event: messages\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"m\",\"content\":\"Because\"},",
        "{\"langgraph_node\":\"model\"}]\n\n",
        "event: messages\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"m\",\"content\":\".\",",
        "\"chunk_position\":\"last\"},{\"langgraph_node\":\"model\"}]\n\n",
        "event: end\ndata: null\n\n",
    );
    let responses = concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"x\",",
        "\"status\":\"in_progress\",\"output\":[]}}\n\n",
        "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,",
        "\"item\":{\"id\":\"f\",\"type\":\"file_search_call\",\"status\":\"completed\",\"queries\":[\"why\"],",
        "\"results\":[]}}\n\n",
        "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",",
        "\"output_index\":1,\"content_index\":0,\"delta\":\"Because.\"}\n\n",
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"x\",",
        "\"status\":\"completed\",\"output\":[]}}\n\n",
    );
    let conversation = json!([
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Because."},
        {"role": "user", "content": "Why?"},
    ]);
    for (wire, stream, asked, event) in [
        (
            "langgraph",
            langgraph,
            json!({
                "assistant_id": "rag",
                "input": {"messages": conversation},
                "stream_mode": ["messages-tuple", "updates", "custom"],
                "config": {"configurable": {}},
                "on_disconnect": "cancel",
                "if_not_exists": "create",
            }),
            "search",
        ),
        (
            "responses",
            responses,
            json!({"model": "rag", "input": conversation, "stream": true, "store": false}),
            "search",
        ),
    ] {
        let mut script: Vec<Step> = vec![head(SSE)];
        script.extend(stream.split_inclusive("\n\n").map(chunk));
        script.push(last());
        let double = Double::start(vec![script]).await;
        let server = gateway(&double.url, |settings| {
            settings.orchestrator_wire = Label(Some(wire.to_owned()));
            settings.orchestrator_model = Label(Some("rag".to_owned()));
        });
        for _ in 0..2 {
            let headers = [JSON, ("accept", "application/x-ndjson")];
            let body = json!({"prompt": "Why?", "session_id": "s"}).to_string();
            let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
            let outcome = Outcome::received(&reply);
            assert_eq!((&*outcome.text, &outcome.code), ("Because.", &None), "{wire}");
            let events: Vec<_> = crate::support::in_lines(&reply.body)
                .iter()
                .filter_map(|frame| match frame {
                    ragwire::Frame::Event { event, .. } => Some(event.name().to_owned()),
                    _ => None,
                })
                .collect();
            assert!(events.iter().any(|name| name == event), "{wire}: {events:?}");
        }
        let seen = double.seen();
        assert_eq!(seen[1].body, asked, "{wire}");
        assert_eq!(
            seen[1].header("accept").map(|kinds| kinds.contains(SSE)),
            Some(true)
        );
    }
}

/// A schema reaches the orchestrator, whose JSON is the result, or the question is refused.
#[tokio::test]
async fn a_schema_is_honoured_or_refused() {
    let openai = |text: &str| {
        let delta = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
        let last_delta = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        format!("data: {delta}\n\ndata: {last_delta}\n\ndata: [DONE]\n\n")
    };
    let own = "{\"event\":\"structured_result\",\"result\":{\"a\":1}}\n{\"text\":\"See the result.\"}\n{\"end\":\"completed\"}\n";
    let schema = json!({"type": "object"});
    for (wire, content_type, body, place, expected) in [
        (
            "openai",
            SSE,
            openai("{\"a\": 1}"),
            "/response_format/json_schema/schema",
            Ok(json!([{"a": 1}])),
        ),
        (
            "openai",
            SSE,
            openai("Well, a is one."),
            "/response_format/json_schema/schema",
            Err("upstream_unreadable"),
        ),
        (
            "ndjson",
            "application/x-ndjson",
            own.to_owned(),
            "/options/output_schema",
            Ok(json!([{"a": 1}])),
        ),
        ("ag_ui", SSE, String::new(), "", Err("invalid_request")),
        ("ai_sdk", SSE, String::new(), "", Err("invalid_request")),
        ("langgraph", SSE, String::new(), "", Err("invalid_request")),
    ] {
        let double = Double::start(vec![vec![head(content_type), chunk(&body), last()]]).await;
        let server = gateway(&double.url, |settings| {
            settings.orchestrator_wire = Label(Some(wire.to_owned()));
        });
        let headers = [JSON, ("accept", "application/x-ndjson")];
        let body = json!({"prompt": "Why?", "options": {"output_schema": schema}}).to_string();
        let reply = server.call(Method::POST, "/v1/turns", &headers, body).await;
        let code = Outcome::received(&reply).code;
        assert_eq!(
            code.as_deref(),
            expected.as_ref().err().copied(),
            "{wire}: {:?}",
            reply.body
        );
        if let Ok(expected) = expected {
            let results: Vec<Value> = crate::support::in_lines(&reply.body)
                .into_iter()
                .filter_map(|frame| match frame {
                    ragwire::Frame::Event {
                        event: ragwire::Event::StructuredResult(one),
                        ..
                    } => Some(one.result),
                    _ => None,
                })
                .collect();
            assert_eq!(json!(results), expected, "{wire}");
        }
        let sent = double
            .seen()
            .first()
            .map(|seen| seen.body.pointer(place).cloned());
        assert_eq!(sent, (!place.is_empty()).then(|| Some(schema.clone())), "{wire}");
    }
}

/// Without a library there is nothing to search in.
#[tokio::test]
async fn mcp_has_only_the_tool_ask() {
    let server = gateway("http://127.0.0.1:9/ask", |_| ());
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let reply = server.post("/mcp", &list).await.json();
    let tools = reply["result"]["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["ask"]);
    let search = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
        "params": {"name": "search", "arguments": {"query": "why"}}});
    let reply = server.post("/mcp", &search).await.json();
    assert_eq!(reply["error"]["message"], "unknown tool");
}
