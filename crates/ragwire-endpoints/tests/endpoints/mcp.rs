//! The tools of MCP, and the pages that may call them.

use std::sync::{Arc, Mutex};

use axum::Router;
use http::Method;
use ragwire::event::Source;
use ragwire::orchestrator::{Answering, Passages, SearchRequest, Searcher};
use ragwire::{Failure, Metadata, Orchestrator, Question, Sink};
use ragwire_endpoints::{Endpoints, owner_header};
use serde_json::{Value, json};

use super::{Asked, JSON, Reply, call};

/// An orchestrator that can search and stores the searches.
#[derive(Clone, Default)]
struct Searched(Arc<Mutex<Vec<SearchRequest>>>);

impl Orchestrator for Searched {
    fn answer(&self, _: Question, _: Sink) -> Answering {
        Box::pin(async { Ok(Metadata::default()) })
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        let searched = Arc::clone(&self.0);
        Some(Arc::new(move |request: SearchRequest| {
            searched.lock().unwrap().push(request.clone());
            async move {
                if request.query == "broken" {
                    return Err(Failure::new("store_down", "The store does not answer."));
                }
                let passage = |number| Source::new(format!("d-{number}"), "d", "One.", vec![]);
                // More than asked for.
                Ok(Passages::new("index", (0..=request.limit).map(passage).collect()))
            }
        }))
    }
}

async fn send(app: &Router, headers: &[(&str, &str)], method: &str, params: &Value) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers: Vec<_> = headers.iter().copied().chain([JSON]).collect();
    call(app, Method::POST, "/mcp", &headers, body.to_string()).await
}

async fn tools(app: &Router) -> Vec<String> {
    let listed = send(app, &[], "tools/list", &json!({})).await.json();
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Calls `search` and returns the response to the call.
async fn search(app: &Router, headers: &[(&str, &str)], arguments: Value) -> Value {
    let params = json!({ "name": "search", "arguments": arguments });
    let reply = send(app, headers, "tools/call", &params).await;
    match reply.text.strip_prefix("event: message\ndata: ") {
        Some(data) => serde_json::from_str(data).unwrap(),
        None => reply.json(),
    }
}

#[tokio::test]
async fn an_orchestrator_that_cannot_search_has_one_tool() {
    let app = Asked::default().endpoints().router();
    assert_eq!(tools(&app).await, ["ask"]);
    let refused = search(&app, &[], json!({ "query": "a" })).await;
    assert_eq!(refused["error"]["message"], "unknown tool");
}

#[tokio::test]
async fn a_search_gets_the_query_the_limit_and_the_owner() {
    let searched = Searched::default();
    let user = http::HeaderName::from_static("x-user");
    let app = Endpoints::new(searched.clone())
        .owner(owner_header(user))
        .router();
    let of = [("x-user", "ada")];
    let found = search(&app, &of, json!({ "query": "commit", "limit": 2 })).await;
    let content = &found["result"]["structuredContent"];
    assert_eq!(content["passages"].as_array().unwrap().len(), 2);
    assert_eq!(content["tools_used"], json!(["index"]));
    let failed = search(&app, &of, json!({ "query": "broken" })).await;
    assert_eq!(failed["result"]["isError"], true);
    assert_eq!(
        failed["result"]["content"][0]["text"],
        "The store does not answer."
    );
    let requests = searched.0.lock().unwrap();
    let seen: Vec<_> = requests
        .iter()
        .map(|request| (&*request.query, request.limit, &*request.owner))
        .collect();
    assert_eq!(seen, [("commit", 2, "ada"), ("broken", 8, "ada")]);
}

#[tokio::test]
async fn a_page_whose_name_points_at_the_server_is_refused() {
    let endpoints = || Endpoints::new(Searched::default());
    let strict = endpoints().router();
    let allowing = endpoints()
        .allow_origin("https://app.example")
        .allow_host("rag.example")
        .router();
    let any = endpoints().allow_any_origin().router();
    for (app, origin, host, status) in [
        (&strict, "http://rag.example", "rag.example", 403),
        (&strict, "https://app.example", "localhost:3000", 403),
        (&strict, "http://localhost:3000", "localhost:3000", 200),
        (&strict, "http://192.0.2.7", "192.0.2.7", 200),
        (&allowing, "http://rag.example", "rag.example", 200),
        (&allowing, "https://app.example", "localhost:3000", 200),
        (&allowing, "http://evil.example", "evil.example", 403),
        (&any, "http://evil.example", "evil.example", 200),
    ] {
        let reply = send(app, &[("origin", origin), ("host", host)], "ping", &json!({})).await;
        assert_eq!(reply.status, status, "{origin} {host}");
    }
}
