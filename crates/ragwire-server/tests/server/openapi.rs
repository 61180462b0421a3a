//! The OpenAPI document: it lists every route, and its contents are true.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;

use crate::support::{JSON, start};

const METHODS: [&str; 4] = ["get", "post", "patch", "delete"];

/// Every route of the server. A route that is added here is also listed in `README.md`.
const ROUTES: [&str; 111] = [
    "delete /threads/{thread_id}",
    "delete /v1/documents/{document_id}",
    "delete /v1/sessions/{session_id}",
    "delete /v1/sessions/{session_id}/turns/{turn_id}",
    "get /",
    "get /api/chat/{chat_id}/stream",
    "get /api/ps",
    "get /api/tags",
    "get /api/v1/socket",
    "get /api/version",
    "get /assistants/{assistant_id}",
    "get /client/errors.js",
    "get /client/framed.js",
    "get /client/indexed.js",
    "get /client/ndjson.js",
    "get /client/stream.js",
    "get /eve/v1/health",
    "get /eve/v1/info",
    "get /eve/v1/session/{session_id}/stream",
    "get /healthz",
    "get /icon.svg",
    "get /info",
    "get /livez",
    "get /metrics",
    "get /openapi.json",
    "get /page.css",
    "get /page.js",
    "get /page/chats.js",
    "get /page/cite.js",
    "get /page/dom.js",
    "get /page/feedback.js",
    "get /page/human.js",
    "get /page/icons.js",
    "get /page/inline.js",
    "get /page/library.js",
    "get /page/markdown.js",
    "get /page/originals.js",
    "get /page/ready.js",
    "get /page/remote.js",
    "get /page/render.js",
    "get /page/scroll.js",
    "get /page/settings.js",
    "get /page/side.js",
    "get /page/steps.js",
    "get /page/theme.js",
    "get /page/turn.js",
    "get /page/upload.js",
    "get /page/view.js",
    "get /page/welcome.js",
    "get /readyz",
    "get /runs/{run_id}/stream",
    "get /threads/{thread_id}",
    "get /threads/{thread_id}/runs",
    "get /threads/{thread_id}/runs/{run_id}",
    "get /threads/{thread_id}/runs/{run_id}/join",
    "get /threads/{thread_id}/runs/{run_id}/stream",
    "get /threads/{thread_id}/state",
    "get /threads/{thread_id}/state/{checkpoint_id}",
    "get /v1/chat/completions/{completion_id}",
    "get /v1/documents",
    "get /v1/documents/{document_id}/chunks/{chunk_id}",
    "get /v1/documents/{document_id}/original",
    "get /v1/feedback",
    "get /v1/generation/status",
    "get /v1/models",
    "get /v1/models/{model}",
    "get /v1/responses/{response_id}",
    "get /v1/sessions",
    "get /v1/sessions/{session_id}",
    "get /v1/sessions/{session_id}/turns",
    "get /v1/turns/{turn_id}",
    "get /v1/turns/{turn_id}/stream",
    "patch /threads/{thread_id}",
    "patch /v1/sessions/{session_id}",
    "post /ag-ui",
    "post /api/chat",
    "post /api/chat/{chat_id}/stop",
    "post /api/generate",
    "post /api/query/stream",
    "post /api/show",
    "post /api/v1/flow/{flow}/service/{service}",
    "post /assistants/search",
    "post /eve/v1/session",
    "post /eve/v1/session/{session_id}",
    "post /eve/v1/session/{session_id}/cancel",
    "post /mcp",
    "post /runs/stream",
    "post /runs/wait",
    "post /threads",
    "post /threads/count",
    "post /threads/search",
    "post /threads/{thread_id}/history",
    "post /threads/{thread_id}/runs",
    "post /threads/{thread_id}/runs/stream",
    "post /threads/{thread_id}/runs/wait",
    "post /threads/{thread_id}/runs/{run_id}/cancel",
    "post /threads/{thread_id}/state",
    "post /threads/{thread_id}/state/checkpoint",
    "post /v1/chat/completions",
    "post /v1/documents",
    "post /v1/rag/sessions/{session_id}/messages",
    "post /v1/rag/sessions/{session_id}/messages/stream",
    "post /v1/responses",
    "post /v1/responses/{response_id}/cancel",
    "post /v1/sessions",
    "post /v1/sessions/{session_id}/chat",
    "post /v1/sessions/{session_id}/chat/stream",
    "post /v1/turns",
    "post /v1/turns/{turn_id}/answer",
    "post /v1/turns/{turn_id}/feedback",
    "post /v1/turns/{turn_id}/stop",
];

/// Each operation: its method, its path and its description in the document.
pub(crate) fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(METHODS.contains(&&**method), "{method} {path}");
            operations.push((&**method, &**path, operation));
        }
    }
    operations
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| match value {
            Value::String(target) if name == "$ref" => drop(found.insert(target)),
            value => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn it_lists_every_route() {
    let server = start(|_| {}).await;
    let reply = server.get("/openapi.json").await;
    assert_eq!(reply.headers["content-type"], "application/json");
    let document = reply.json();
    let mut known: Vec<String> = operations(&document)
        .into_iter()
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    known.sort();
    assert_eq!(known, ROUTES);
    for route in ROUTES {
        let (method, path) = route.split_once(' ').unwrap();
        let path = path.replace(['{', '}'], "");
        let method: Method = method.to_uppercase().parse().unwrap();
        for (method, answers) in [(method, true), (Method::PUT, false)] {
            let reply = server.call(method.clone(), &path, &[], "").await;
            let text = String::from_utf8_lossy(&reply.body);
            assert!(!text.contains("There is no such route."), "{method} {path}");
            assert_eq!(reply.status != 405, answers, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn it_is_complete() {
    let server = start(|_| {}).await;
    let document = server.get("/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut referred = BTreeSet::new();
    references(&document, &mut referred);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let defined: Vec<String> = schemas
        .keys()
        .map(|name| format!("#/components/schemas/{name}"))
        .collect();
    assert_eq!(
        referred,
        defined.iter().map(String::as_str).collect(),
        "each is defined, and each is used"
    );

    let tags = document["tags"].as_array().unwrap();
    let tags: BTreeSet<&str> = tags.iter().filter_map(|tag| tag["name"].as_str()).collect();
    let (mut ids, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (method, path, operation) in operations(&document) {
        let name = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{name}");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{name}");
        used.extend(
            operation["tags"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str),
        );
        let in_path: BTreeSet<&str> = path.split(['{', '}']).skip(1).step_by(2).collect();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let told = parameters.filter(|parameter| parameter["in"] == "path");
        let told: BTreeSet<&str> = told.filter_map(|parameter| parameter["name"].as_str()).collect();
        assert_eq!(told, in_path, "{name}");
        let answers = operation["responses"].as_object().unwrap();
        // A WebSocket starts with 101.
        let good = |status: &String| status.starts_with('2') || status == "101";
        assert!(answers.keys().any(good), "{name}");
        assert!(answers.contains_key("default"), "{name}");
    }
    assert_eq!(used, tags);
}

/// The server accepts every example, and answers with a media type that the document lists.
#[tokio::test]
async fn its_examples_work() {
    let server = start(|_| {}).await;
    let document = server.get("/openapi.json").await.json();
    let began = server.call(Method::POST, "/v1/sessions", &[], "").await;
    let session = began.json()["id"].as_str().unwrap().to_owned();
    let mut tried = 0;
    for (method, path, operation) in operations(&document) {
        let example = &operation["requestBody"]["content"]["application/json"]["example"];
        if example.is_null() {
            continue;
        }
        let path = path
            .replace("{session_id}", &session)
            .replace("{thread_id}", &session)
            .replace("{flow}", "default")
            .replace("{service}", "graph-rag");
        let method: Method = method.to_uppercase().parse().unwrap();
        let reply = server.call(method, &path, &[JSON], example.to_string()).await;
        let answers = &operation["responses"][reply.status.as_str()]["content"];
        let media_type = reply.headers["content-type"].to_str().unwrap();
        let essence = media_type.split(';').next().unwrap();
        assert!(reply.status.is_success(), "{path}: {:?}", reply.body);
        assert!(answers.get(essence).is_some(), "{path}: {essence}");
        tried += 1;
    }
    assert_eq!(
        tried, 18,
        "every route that takes JSON and nothing that an answer said first"
    );
}

/// Clients that read the document, and fuzzers that draw from it, send what the server takes.
#[tokio::test]
async fn it_says_which_ids_and_questions_are_refused() {
    let server = start(|_| {}).await;
    let document = server.get("/openapi.json").await.json();
    let mut ids = 0;
    for (method, path, operation) in operations(&document) {
        // Eve's sessions are not named by clients.
        if path.starts_with("/eve/") || path.starts_with("/threads") {
            continue;
        }
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        for parameter in parameters.filter(|parameter| parameter["name"] == "session_id") {
            let schema = &parameter["schema"];
            assert_eq!(
                (&schema["minLength"], &schema["maxLength"]),
                (&1.into(), &128.into()),
                "{method} {path}"
            );
            assert!(schema["pattern"].is_string(), "{method} {path}");
            ids += 1;
        }
    }
    assert_eq!(ids, 9);
    let mut questions = 0;
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        let asked = ["prompt", "query"].map(|member| &schema["properties"][member]);
        let is_request = schema["required"].as_array().is_some_and(|required| {
            required.contains(&"prompt".into()) || required.contains(&"query".into())
        });
        for member in asked
            .into_iter()
            .filter(|member| is_request && member["pattern"].is_string())
        {
            assert_eq!(
                (&member["minLength"], &member["pattern"]),
                (&1.into(), &"[^\\s\\u0085]".into()),
                "{name}"
            );
            questions += 1;
        }
    }
    assert_eq!(questions, 4);
    let long = "a".repeat(129);
    for (id, status) in [
        ("a", 200),
        ("a.b", 200),
        ("..", 400),
        ("a%20b", 400),
        (long.as_str(), 400),
    ] {
        let path = format!("/v1/rag/sessions/{id}/messages");
        assert_eq!(server.ask(&path, "fault:no-events").await.status, status, "{id}");
    }
    for prompt in ["", " \t"] {
        assert_eq!(server.ask("/v1/turns", prompt).await.status, 422);
    }
}
