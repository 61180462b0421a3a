//! Filters on every route that asks or searches: only documents that they select are cited, and one
//! that cannot be read is refused with the value and what is possible.

use std::sync::Arc;

use ragwire_rag::{Library, LibraryLimits, parse};
use serde_json::{Value, json};

use crate::support::start_on;

pub(crate) const QUESTION: &str = "When does the robin sing?";

fn library() -> Arc<Library> {
    let library = Library::in_memory(LibraryLimits::default()).unwrap();
    for (name, text) in [
        (
            "woods/birds.md",
            "---\ntags: [field]\ndate: 2025-05-01\n---\n# Birds\n\nThe robin sings at dawn in the woods.",
        ),
        (
            "city/birds.md",
            "---\ntags: [street]\ndate: 2026-05-01\n---\n# Birds\n\nThe robin sings at midnight in the city.",
        ),
        ("city/birds.txt", "The robin sings at noon in the station hall."),
    ] {
        let parsed = parse(name, text.as_bytes(), &Default::default()).unwrap();
        library.add(name, &parsed).unwrap();
    }
    Arc::new(library)
}

/// All routes that ask or search, with a body that has this filter.
pub(crate) fn requests(filter: &Value) -> Vec<(&'static str, Value)> {
    let tool = |name: &str, arguments: Value| {
        json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": arguments},
        })
    };
    let message = json!([{"role": "user", "content": QUESTION}]);
    let parts = json!([{"id": "1", "role": "user", "parts": [{"type": "text", "text": QUESTION}]}]);
    vec![
        ("/v1/turns", json!({"prompt": QUESTION, "filter": filter})),
        (
            "/v1/turns",
            json!({"prompt": QUESTION, "options": {"extra": {"filter": filter}}}),
        ),
        (
            "/v1/rag/sessions/a/messages",
            json!({"prompt": QUESTION, "filter": filter}),
        ),
        (
            "/v1/rag/sessions/b/messages/stream",
            json!({"prompt": QUESTION, "filter": filter}),
        ),
        ("/api/query/stream", json!({"query": QUESTION, "filter": filter})),
        (
            "/api/v1/flow/default/service/document-rag",
            json!({"query": QUESTION, "filter": filter}),
        ),
        (
            "/v1/chat/completions",
            json!({"model": "ragwire", "messages": message, "filter": filter}),
        ),
        (
            "/v1/responses",
            json!({"model": "ragwire", "input": QUESTION, "filter": filter}),
        ),
        (
            "/api/generate",
            json!({"model": "ragwire", "prompt": QUESTION, "stream": false, "options": {"filter": filter}}),
        ),
        (
            "/api/chat",
            json!({"id": "c", "messages": parts, "filter": filter}),
        ),
        (
            "/mcp",
            tool("ask", json!({"question": QUESTION, "filter": filter})),
        ),
        (
            "/mcp",
            tool("search", json!({"query": QUESTION, "filter": filter})),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_searches_the_selected_documents() {
    let server = start_on(library(), |_| {}).await;
    for (filter, selected) in [
        (json!({"folder": "woods"}), "at dawn"),
        (json!({"folders": ["city"], "kinds": ["markdown"]}), "at midnight"),
        (json!({"kind": "text"}), "at noon"),
        (json!({"tags": ["Street"]}), "at midnight"),
        (json!({"until": "2025"}), "at dawn"),
        (json!({"since": "2026-05", "language": "en"}), "at midnight"),
    ] {
        for (route, body) in requests(&filter) {
            let reply = server.post(route, &body).await;
            let text = String::from_utf8_lossy(&reply.body);
            assert_eq!(reply.status, 200, "{route} {filter}: {}", text);
            let found: Vec<&str> = ["at dawn", "at midnight", "at noon"]
                .into_iter()
                .filter(|time| text.contains(time))
                .collect();
            assert_eq!(found, [selected], "{route} {filter}: {}", text);
        }
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_names_what_is_wrong_with_a_filter() {
    let server = start_on(library(), |_| {}).await;
    for (filter, named) in [
        (
            json!({"kind": "word"}),
            "unknown kind `word` in the filter; the kinds are",
        ),
        (
            json!({"folderz": "woods"}),
            "unknown member `folderz` of the filter; the members are",
        ),
        (
            json!({"since": "May"}),
            "`May` in the filter is not a day; write 2026-01-31",
        ),
    ] {
        for (route, body) in requests(&filter) {
            let reply = server.post(route, &body).await;
            let text = String::from_utf8_lossy(&reply.body);
            assert!(text.contains(named), "{route} {filter}: {}", text);
            assert!(!text.contains("robin sings"), "{route} {filter}: {}", text);
        }
    }
    server.stop().await;
}
