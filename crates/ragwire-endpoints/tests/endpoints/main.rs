//! Endpoints around an orchestrator of the tests: their selection, their settings, and what the
//! orchestrator gets.
#![allow(clippy::unwrap_used, reason = "a helper that cannot continue fails its test")]

mod chats;
mod langgraph;
mod mcp;
mod ollama;
mod openai;
mod requests;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{HeaderName, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use ragwire::event::{Search, StructuredResult};
use ragwire::orchestrator::{Effort, Service};
use ragwire::{Failure, Metadata, Question, SendError, Sink};
use ragwire_endpoints::{EndpointLimits, Endpoints, Protocol, Refusal, owner_header};
use serde_json::{Value, json};
use tower::ServiceExt;

const TEXT: &str = "Forty-two.";

/// An orchestrator that stores its questions.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Question>>>);

impl Asked {
    fn endpoints(&self) -> Endpoints {
        let asked = self.clone();
        Endpoints::new(move |question: Question, sink: Sink| {
            asked.0.lock().unwrap().push(question.clone());
            async move {
                sink.send(Search::new("bm25").query(&question.prompt)).await?;
                if question.options.output_schema.is_some() {
                    sink.send(StructuredResult::new(json!({ "answer": 42 }))).await?;
                }
                sink.send(TEXT).await?;
                Ok::<_, SendError>(Metadata::default())
            }
        })
    }

    fn last(&self) -> Question {
        self.0.lock().unwrap().last().cloned().unwrap()
    }
}

struct Reply {
    status: u16,
    headers: http::HeaderMap,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

async fn call(
    app: &Router,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Body>,
) -> Reply {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = app
        .clone()
        .oneshot(request.body(body.into()).unwrap())
        .await
        .unwrap();
    let (head, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");

async fn post(app: &Router, path: &str, body: &Value) -> Reply {
    call(app, Method::POST, path, &[JSON], body.to_string()).await
}

async fn get(app: &Router, path: &str) -> Reply {
    call(app, Method::GET, path, &[], "").await
}

fn ui(text: &str) -> Value {
    json!({ "id": "c", "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": text }] }] })
}

fn completion() -> Value {
    json!({ "model": "ragwire", "messages": [{ "role": "user", "content": "Why?" }] })
}

/// A question in each protocol that needs no session: its path and its body.
fn questions() -> Vec<(Protocol, &'static str, Value)> {
    vec![
        (
            Protocol::Rag,
            "/v1/rag/sessions/s/messages",
            json!({ "prompt": "Why?" }),
        ),
        (Protocol::Turns, "/v1/turns", json!({ "prompt": "Why?" })),
        (Protocol::AiSdk, "/api/chat", ui("Why?")),
        (
            Protocol::AgUi,
            "/ag-ui",
            json!({ "threadId": "t", "runId": "r", "messages": [{ "id": "m", "role": "user", "content": "Why?" }] }),
        ),
        (Protocol::OpenAi, "/v1/chat/completions", completion()),
        (Protocol::Forge, "/api/query/stream", json!({ "query": "Why?" })),
        (
            Protocol::Responses,
            "/v1/responses",
            json!({ "model": "ragwire", "input": "Why?" }),
        ),
        (Protocol::Ollama, "/api/chat", completion()),
        (
            Protocol::LangGraph,
            "/runs/wait",
            json!({ "input": { "messages": [{ "type": "human", "content": "Why?" }] } }),
        ),
        (
            Protocol::Mcp,
            "/mcp",
            json!({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": { "name": "ask", "arguments": { "question": "Why?" } },
            }),
        ),
        (
            Protocol::TrustGraph,
            "/api/v1/flow/default/service/graph-rag",
            json!({ "query": "Why?", "entity-limit": 7 }),
        ),
    ]
}

#[tokio::test]
async fn every_protocol_answers() {
    let asked = Asked::default();
    let app = asked.endpoints().router();
    for (protocol, path, body) in questions() {
        let reply = post(&app, path, &body).await;
        assert_eq!(reply.status, 200, "{protocol:?}: {}", reply.text);
        assert!(reply.text.contains(TEXT), "{protocol:?}: {}", reply.text);
        assert_eq!(asked.last().prompt, "Why?", "{protocol:?}");
    }
    let Service::GraphRag(limits) = asked.last().options.service else {
        panic!("{:?}", asked.last().options)
    };
    assert_eq!(limits.entity_limit, 7);

    let session = post(&app, "/v1/sessions", &json!({})).await.json();
    let path = format!("/v1/sessions/{}/chat", session["id"].as_str().unwrap());
    let reply = post(&app, &path, &json!({ "message": "Why?", "model_size": "large" })).await;
    assert_eq!((reply.status, asked.last().effort), (200, Effort::High));

    let created = post(&app, "/eve/v1/session", &json!({ "message": "Why?" })).await;
    assert_eq!(created.status, 202, "{}", created.text);
    let path = format!(
        "/eve/v1/session/{}/stream",
        created.json()["sessionId"].as_str().unwrap()
    );
    assert!(get(&app, &path).await.text.contains(TEXT));
}

#[tokio::test]
async fn only_selected_protocols_have_routes() {
    let asked = Asked::default();
    for selected in Protocol::ALL {
        let endpoints = asked.endpoints().protocols([selected, selected]).build();
        let app = endpoints.router();
        for (protocol, path, body) in questions() {
            let share_path = [Protocol::AiSdk, Protocol::Ollama];
            if share_path.contains(&protocol) && share_path.contains(&selected) && protocol != selected {
                continue;
            }
            let expected = if protocol == selected { 200 } else { 404 };
            assert_eq!(
                post(&app, path, &body).await.status,
                expected,
                "{selected:?}: {path}"
            );
        }
        let document = serde_json::to_value(endpoints.openapi()).unwrap();
        let has = |path: &str| document["paths"].get(path).is_some();
        assert_eq!(has("/eve/v1/session"), selected == Protocol::Eve);
        assert_eq!(has("/v1/sessions"), selected == Protocol::SessionChat);
        assert_eq!(has("/v1/turns/{turn_id}/stop"), selected != Protocol::TrustGraph);
    }
}

#[tokio::test]
async fn a_prefix_is_in_routes_links_and_document() {
    let endpoints = Asked::default().endpoints().prefix("rag/").build();
    let app = endpoints.router();
    for (_, path, body) in questions() {
        assert_eq!(post(&app, path, &body).await.status, 404);
        let reply = post(&app, &format!("/rag{path}"), &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let headers = [JSON, ("prefer", "respond-async")];
    let started = call(
        &app,
        Method::POST,
        "/rag/v1/turns",
        &headers,
        r#"{"prompt":"Why?"}"#,
    )
    .await;
    assert_eq!(started.status, 202);
    let link = started.headers["location"].to_str().unwrap();
    assert!(get(&app, link).await.text.contains(TEXT), "{link}");
    let document = serde_json::to_value(endpoints.openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 20);
    assert!(paths.keys().all(|path| path.starts_with("/rag/")), "{paths:?}");
}

#[tokio::test]
async fn a_bare_hyper_server_runs_them() {
    let (client, server) = tokio::io::duplex(64 << 10);
    let service = TowerToHyperService::new(Asked::default().endpoints().router());
    let serving = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client))
        .await
        .unwrap();
    let request = Request::post("/api/chat")
        .header("host", "x.test")
        .header(JSON.0, JSON.1)
        .body(Full::<bytes::Bytes>::from(ui("Why?").to_string()))
        .unwrap();
    let asking = async {
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8(body.to_vec()).unwrap().contains(TEXT));
        drop(sender);
        Ok::<_, Infallible>(())
    };
    let (asked, served, connected) = tokio::join!(asking, serving, connection);
    assert!(asked.is_ok() && served.is_ok() && connected.is_ok());
}

#[tokio::test]
async fn an_owner_has_turns_of_their_own() {
    let asked = Asked::default();
    let app = asked
        .endpoints()
        .owner(owner_header(HeaderName::from_static("x-user")))
        .router();
    let refused = post(&app, "/v1/turns", &json!({ "prompt": "Why?" })).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (401, &"unauthorized".into())
    );
    let as_user = |name| [JSON, ("x-user", name)];
    let reply = call(
        &app,
        Method::POST,
        "/v1/turns",
        &as_user("ada"),
        r#"{"prompt":"Why?"}"#,
    )
    .await;
    assert_eq!((reply.status, &*asked.last().owner), (200, "ada"));
    let path = format!(
        "/v1/turns/{}/stream",
        reply.headers["x-ragwire-turn"].to_str().unwrap()
    );
    assert_eq!(
        call(&app, Method::GET, &path, &as_user("ada"), "").await.status,
        200
    );
    assert_eq!(
        call(&app, Method::GET, &path, &as_user("bob"), "").await.status,
        404
    );
}

#[tokio::test]
async fn an_owner_function_can_refuse_and_cannot_imitate() {
    let forbidden = |_: &http::request::Parts| {
        Err(Refusal::permanent(
            StatusCode::FORBIDDEN,
            "no_access",
            "Ask the operator.",
        ))
    };
    let app = Asked::default().endpoints().owner(forbidden).router();
    let reply = post(&app, "/api/chat", &ui("Why?")).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (403, &"no_access".into())
    );
    let reply = post(&app, "/v1/chat/completions", &completion()).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (403, &"no_access".into())
    );

    // The name under which the sessions of Eve are stored.
    let app = Asked::default()
        .endpoints()
        .owner(|_| Ok(Some("eve\0ada".to_owned())))
        .router();
    assert_eq!(post(&app, "/api/chat", &ui("Why?")).await.status, 401);
}

#[tokio::test]
async fn only_named_headers_are_passed() {
    let asked = Asked::default();
    let app = asked
        .endpoints()
        .pass_headers([HeaderName::from_static("x-tenant")])
        .router();
    let headers = [JSON, ("X-Tenant", "acme"), ("authorization", "Bearer x")];
    let reply = call(&app, Method::POST, "/v1/turns", &headers, r#"{"prompt":"Why?"}"#).await;
    assert_eq!(reply.status, 200);
    let passed = asked.last().options.headers;
    assert_eq!(passed.iter().collect::<Vec<_>>(), [("x-tenant", "acme")]);
}

#[tokio::test]
async fn the_members_of_the_application_reach_the_orchestrator() {
    let asked = Asked::default();
    let app = asked.endpoints().router();
    let mut chat = ui("Why?");
    (chat["trigger"], chat["lang"]) = ("submit-message".into(), "en".into());
    chat["messages"].as_array_mut().unwrap().insert(
        0,
        json!({ "role": "system", "parts": [{ "type": "text", "text": "Be brief." }] }),
    );
    assert_eq!(post(&app, "/api/chat", &chat).await.status, 200);
    let options = asked.last().options;
    assert_eq!(Value::from(options.extra), json!({ "lang": "en" }));
    assert_eq!(options.instructions.as_deref(), Some("Be brief."));

    let run = json!({
        "threadId": "t", "runId": "r", "forwardedProps": { "lang": "de" },
        "messages": [{ "id": "m", "role": "user", "content": "Why?" }],
    });
    assert_eq!(post(&app, "/ag-ui", &run).await.status, 200);
    assert_eq!(asked.last().options.extra["lang"], "de");

    let mut body = completion();
    (body["metadata"], body["reasoning_effort"]) = (json!({ "lang": "fr" }), "high".into());
    assert_eq!(post(&app, "/v1/chat/completions", &body).await.status, 200);
    assert_eq!(
        (&asked.last().options.extra["lang"], asked.last().effort),
        (&"fr".into(), Effort::High)
    );
}

#[tokio::test]
async fn files_are_refused_unless_the_orchestrator_reads_them() {
    let mut chat = ui("What is it?");
    let file = json!({ "type": "file", "mediaType": "image/png", "url": "data:image/png;base64,QQ==" });
    chat["messages"][0]["parts"].as_array_mut().unwrap().push(file);
    let asked = Asked::default();
    let refused = post(&asked.endpoints().router(), "/api/chat", &chat).await;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.json()["error"]["message"],
        "A user's message may only have parts of the type `text`, not `file`."
    );
    let app = asked.endpoints().attachments().router();
    assert_eq!(post(&app, "/api/chat", &chat).await.status, 200);
    let question = asked.last();
    assert_eq!(question.attachments[0].media_type, "image/png");
    assert_eq!(question.prompt, "What is it?");
    // Larger than a conversation without files.
    let url = format!("data:image/png;base64,{}", "QUFB".repeat(1 << 20));
    chat["messages"][0]["parts"][1]["url"] = url.into();
    assert_eq!(post(&app, "/api/chat", &chat).await.status, 200);
    assert_eq!(
        post(&asked.endpoints().router(), "/api/chat", &chat).await.status,
        413
    );
}

#[tokio::test]
async fn eve_passes_a_schema_if_there_are_structured_results() {
    let asked = Asked::default();
    let schema = json!({ "type": "object" });
    let body = json!({ "message": "Why?", "outputSchema": schema });
    let refused = post(&asked.endpoints().router(), "/eve/v1/session", &body).await;
    assert_eq!(refused.status, 422);
    let app = asked.endpoints().structured_results().router();
    let created = post(&app, "/eve/v1/session", &body).await;
    assert_eq!(created.status, 202, "{}", created.text);
    assert_eq!(asked.last().options.output_schema, Some(schema));
    let path = format!(
        "/eve/v1/session/{}/stream",
        created.json()["sessionId"].as_str().unwrap()
    );
    let stream = get(&app, &path).await;
    let lines = stream.text.lines().filter(|line| !line.is_empty());
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = lines
        .iter()
        .find(|line| line["type"] == "result.completed")
        .unwrap();
    assert_eq!(result["data"]["result"], json!({ "answer": 42 }));
}

#[tokio::test]
async fn a_shutdown_ends_the_turns() {
    let endpoints = Endpoints::new(async |_: Question, sink: Sink| {
        sink.send("Wait.").await?;
        std::future::pending::<Result<Metadata, SendError>>().await
    })
    .build();
    let app = endpoints.router();
    let body = json!({ "prompt": "Why?" });
    let (reply, ()) = tokio::join!(post(&app, "/v1/turns", &body), async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        endpoints.shut_down();
        endpoints.drained().await;
    });
    assert!(reply.text.contains("shutting_down"), "{}", reply.text);
    assert_eq!(post(&app, "/v1/turns", &body).await.status, 503);
}

/// Forge's page reads the body whatever the status is.
#[tokio::test]
async fn forge_gets_every_failure_as_events() {
    let endpoints = Endpoints::new(async |_: Question, _: Sink| {
        Err::<Metadata, _>(Failure::new("no_documents", "There are no documents yet."))
    })
    .build();
    let app = endpoints.router();
    let ask = async |body: Value, status: u16, code: &str| {
        let reply = post(&app, "/api/query/stream", &body).await;
        assert_eq!(reply.status, status, "{}", reply.text);
        assert_eq!(reply.headers["content-type"], "text/event-stream");
        let names: Vec<&str> = reply
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("event: "))
            .collect();
        assert_eq!(names, ["error", "done"], "{}", reply.text);
        let data = reply.text.lines().find_map(|line| line.strip_prefix("data: "));
        let data: Value = serde_json::from_str(data.unwrap()).unwrap();
        assert_eq!(data["code"], code);
        reply
    };
    ask(json!({ "query": "Why?" }), 200, "NO_DOCUMENTS").await;
    ask(json!({ "query": "" }), 422, "INVALID_REQUEST").await;
    ask(json!({ "question": "Why?" }), 422, "INVALID_REQUEST").await;
    endpoints.shut_down();
    let refused = ask(json!({ "query": "Why?" }), 503, "SHUTTING_DOWN").await;
    assert!(refused.headers.contains_key("retry-after"));
    assert!(refused.headers.contains_key("x-request-id"));
}

#[tokio::test]
async fn instructions_are_bounded() {
    let app = Asked::default().endpoints().router();
    let mut body = completion();
    let long = "x".repeat(EndpointLimits::MAX_QUESTION_BYTES + 1);
    body["messages"]
        .as_array_mut()
        .unwrap()
        .insert(0, json!({ "role": "system", "content": long }));
    let reply = post(&app, "/v1/chat/completions", &body).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["code"]),
        (422, &"invalid_request".into())
    );
}

#[tokio::test]
async fn langgraph_refuses_what_it_cannot_continue() {
    let app = Asked::default().endpoints().router();
    let human = json!({ "input": { "messages": [["user", "Why?"]] } });
    let unknown = post(&app, "/threads/t-1/runs/wait", &human).await;
    assert_eq!(
        (unknown.status, unknown.json()["error"]["code"].as_str()),
        (404, Some("not_found"))
    );
    let thread = post(&app, "/threads", &json!({ "thread_id": "t-1" }))
        .await
        .json();
    assert_eq!(thread["thread_id"], "t-1");
    assert_eq!(
        post(&app, "/threads", &json!({ "thread_id": "t-1" }))
            .await
            .status,
        409
    );
    let same = json!({ "thread_id": "t-1", "if_exists": "do_nothing" });
    assert_eq!(post(&app, "/threads", &same).await.status, 200);
    assert_eq!(
        get(&app, "/threads/t-1/state").await.json()["checkpoint"],
        Value::Null
    );
    assert_eq!(
        post(&app, "/threads/t-1/history", &json!({})).await.json(),
        json!([])
    );

    let resume = json!({ "command": { "resume": true } });
    let nothing = post(&app, "/threads/t-1/runs/stream", &resume).await;
    assert_eq!(
        (nothing.status, nothing.json()["error"]["code"].as_str()),
        (409, Some("no_question"))
    );
    let empty = post(&app, "/threads/t-1/runs/stream", &json!({ "input": {} })).await;
    assert_eq!(empty.status, 422, "{}", empty.text);

    let run = post(&app, "/threads/t-1/runs/stream", &human).await;
    let location = run.headers["location"].to_str().unwrap();
    assert!(
        run.text.ends_with("\n\n") && run.text.contains("event: end"),
        "{}",
        run.text
    );
    for (last, status) in [("-1", 200), ("1v", 200), ("x", 400), ("1vv", 400)] {
        let rest = call(&app, Method::GET, location, &[("last-event-id", last)], "").await;
        assert_eq!(rest.status, status, "{last}: {}", rest.text);
        if status == 200 {
            let from = if last == "1v" {
                run.text.find("id: 2v").unwrap()
            } else {
                0
            };
            let modes = if last == "1v" { &run.text[from..] } else { "" };
            assert!(rest.text.ends_with(modes), "{last}: {}", rest.text);
        }
    }
    let state = get(&app, "/threads/t-1/state").await.json();
    assert_eq!(state["values"]["messages"][0]["content"], "Why?");
    let answer = state["values"]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(answer["content"], TEXT);
}
