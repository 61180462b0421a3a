//! The conversation so far reaches the orchestrator, whether the client or the server stored it,
//! cut to what a session may hold.

use std::sync::Arc;

use ragwire::Metadata;
use ragwire::orchestrator::Answering;
use ragwire::{Orchestrator, Question};
use ragwire_rag::Library;
use ragwire_server::settings::values::Count;
use serde_json::{Value, json};

use crate::support::{events, start_with};

/// Answers with the conversation that it received.
#[derive(Debug)]
struct Echo;

impl Orchestrator for Echo {
    fn answer(&self, question: Question, sink: ragwire::Sink) -> Answering {
        Box::pin(async move {
            let earlier = question.history.iter().map(|said| json!([said.role, said.text]));
            let earlier: Vec<Value> = earlier.collect();
            let heard = json!([question.prompt, format!("{:?}", question.effort), earlier]);
            sink.send(heard.to_string()).await?;
            Ok(Metadata::default())
        })
    }
}

/// `a` to `e` with alternating roles; the last one is the question.
fn messages(text: &str, part: fn(&str) -> Value) -> Value {
    let said = ["a", "b", "c", "d", "e"].into_iter().enumerate();
    let message = |(at, words): (usize, &str)| {
        let role = ["user", "assistant"][at % 2];
        json!({ "id": words, "role": role, text: part(words) })
    };
    said.map(message).collect()
}

#[tokio::test]
async fn conversations_are_cut_to_the_newest() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(Echo)), |settings| {
        settings.session_turns = Count(3);
    });
    let parts = |words: &str| json!([{ "type": "text", "text": words }]);
    let plain = |words: &str| json!(words);
    let run = json!({ "threadId": "t", "runId": "r", "messages": messages("content", plain) });
    let completion = json!({ "model": "ragwire", "messages": messages("content", parts), "stream": true });
    let heard = json!([
        "e",
        "Medium",
        [["assistant", "b"], ["user", "c"], ["assistant", "d"]]
    ])
    .to_string();
    for (path, body, text) in [
        (
            "/api/chat",
            json!({ "messages": messages("parts", parts) }),
            "/delta",
        ),
        ("/ag-ui", run, "/delta"),
        ("/v1/chat/completions", completion, "/choices/0/delta/content"),
    ] {
        let reply = server.post(path, &body).await;
        let texts = events(&reply.body).into_iter();
        let texts: String = texts
            .filter_map(|event| Some(event.pointer(text)?.as_str()?.to_owned()))
            .collect();
        assert_eq!(texts, heard, "{path}");
    }
}

#[tokio::test]
async fn the_server_stores_a_session() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(Echo)), |settings| {
        settings.session_turns = Count(3);
    });
    let began = server.post("/v1/sessions", &json!({})).await.json();
    let path = format!("/v1/sessions/{}/chat", began["id"].as_str().unwrap());
    let mut earlier: Vec<Value> = Vec::new();
    for (prompt, size, effort) in [
        ("a", Some("small"), "Low"),
        ("b", Some("medium"), "Medium"),
        ("c", Some("large"), "High"),
        ("d", None, "Medium"),
    ] {
        let asked = json!({ "message": prompt, "model_size": size });
        let complete = server.post(&path, &asked).await.json();
        let heard = json!([prompt, effort, earlier]).to_string();
        assert_eq!(complete["response"]["content"], heard);
        earlier.extend([json!(["user", prompt]), json!(["assistant", heard])]);
        earlier.drain(..earlier.len().saturating_sub(3));
    }
}
