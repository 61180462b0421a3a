//! What LangGraph's threads keep.

use http::Method;
use ragwire::session::{SessionLimits, Sessions};
use serde_json::json;

use super::{Asked, TEXT, call, get, post};

#[tokio::test]
async fn an_answer_is_kept_where_a_thread_has_no_room_for_its_runs() {
    let asked = Asked::default();
    for (max_state_bytes, runs) in [(64 * 1024, 2), (10, 0)] {
        let limits = SessionLimits::default().max_state_bytes(max_state_bytes);
        let app = asked.endpoints().sessions(Sessions::in_memory(limits)).router();
        let thread = post(&app, "/threads", &json!({})).await.json();
        let path = format!("/threads/{}/runs", thread["thread_id"].as_str().unwrap());
        for question in ["Why?", "Why not?"] {
            let input = json!({ "messages": [{ "type": "human", "content": question }] });
            let reply = post(&app, &format!("{path}/wait"), &json!({ "input": input })).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
        let history: Vec<_> = asked
            .last()
            .history
            .into_iter()
            .map(|message| message.text)
            .collect();
        assert_eq!(history, ["Why?", TEXT]);
        assert_eq!(get(&app, &path).await.json().as_array().unwrap().len(), runs);
    }
}

#[tokio::test]
async fn the_metadata_of_a_thread_is_bounded() {
    let app = Asked::default().endpoints().router();
    let metadata = json!({ "topic": "x".repeat(20_000) });
    let refused = post(&app, "/threads", &json!({ "metadata": metadata })).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(refused.json()["detail"].as_str().unwrap().contains("metadata"));
}

#[tokio::test]
async fn a_deleted_thread_has_no_runs() {
    let app = Asked::default().endpoints().router();
    let thread = post(&app, "/threads", &json!({})).await.json();
    let thread = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    let run = post(&app, &format!("{thread}/runs"), &json!({ "input": "Why?" }))
        .await
        .json();
    let run = format!("{thread}/runs/{}", run["run_id"].as_str().unwrap());
    let paths = [run.clone(), format!("{run}/stream"), format!("{run}/join")];
    for path in &paths {
        assert_eq!(get(&app, path).await.status, 200, "{path}");
    }
    assert_eq!(call(&app, Method::DELETE, &thread, &[], "").await.status, 204);
    for path in &paths {
        assert_eq!(get(&app, path).await.status, 404, "{path}");
    }
}
