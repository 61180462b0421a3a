//! The list of sessions, their recorded turns, and feedback.

use http::{HeaderName, Method};
use ragwire::{Citation, Metadata, Question, SendError, Sink};
use ragwire_endpoints::{Endpoints, owner_header};
use serde_json::{Value, json};

use super::{JSON, Reply, call};

/// Answers with the history, so that a test sees what the session contains.
async fn recall(question: Question, sink: Sink) -> Result<Metadata, SendError> {
    let earlier: Vec<_> = question
        .history
        .iter()
        .map(|message| message.text.clone())
        .collect();
    sink.send(format!("After [{}] [1].", earlier.join("|"))).await?;
    let citation = Citation::new("doc", "doc-1", "a quote", "bm25");
    Ok(Metadata::default()
        .citations(vec![citation])
        .with("answered", true))
}

struct Service(axum::Router);

impl Service {
    fn start() -> Self {
        let owner = owner_header(HeaderName::from_static("x-user"));
        Self(Endpoints::new(recall).owner(owner).router())
    }

    async fn call(&self, user: &str, method: Method, path: &str, body: &Value) -> Reply {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        call(&self.0, method, path, &[JSON, ("x-user", user)], body).await
    }

    async fn get(&self, user: &str, path: &str) -> Reply {
        self.call(user, Method::GET, path, &Value::Null).await
    }

    /// Asks in a session and returns the ID of the turn.
    async fn ask(&self, user: &str, session: &str, prompt: &str) -> String {
        let body = json!({ "prompt": prompt, "session_id": session });
        let reply = self.call(user, Method::POST, "/v1/turns", &body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.headers["x-ragwire-turn"].to_str().unwrap().to_owned()
    }

    async fn titles(&self, user: &str) -> Vec<String> {
        let list = self.get(user, "/v1/sessions").await.json();
        let sessions = list["sessions"].as_array().unwrap();
        sessions
            .iter()
            .map(|session| session["title"].as_str().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test]
async fn an_owner_lists_renames_and_deletes_their_sessions() {
    let service = Service::start();
    service.ask("ada", "one", "First?").await;
    let second = service.ask("ada", "two", "Second?").await;
    service.ask("bob", "one", "His?").await;
    // A session without a question is not a chat yet.
    service
        .call("ada", Method::POST, "/v1/sessions", &json!({}))
        .await;
    assert_eq!(service.titles("ada").await, ["Second?", "First?"]);
    assert_eq!(service.titles("bob").await, ["His?"]);

    let renamed = service
        .call(
            "ada",
            Method::PATCH,
            "/v1/sessions/one",
            &json!({ "title": " Rules " }),
        )
        .await;
    assert_eq!((renamed.status, &renamed.json()["title"]), (200, &json!("Rules")));
    assert_eq!(service.titles("ada").await, ["Rules", "Second?"]);
    for (path, title, status) in [
        ("/v1/sessions/one", " ", 422),
        ("/v1/sessions/one", &*"x".repeat(201), 422),
        ("/v1/sessions/none", "T", 404),
    ] {
        let refused = service
            .call("ada", Method::PATCH, path, &json!({ "title": title }))
            .await;
        assert_eq!(refused.status, status, "{path} {title}");
    }

    assert_eq!(
        service
            .call("bob", Method::DELETE, "/v1/sessions/two", &Value::Null)
            .await
            .status,
        404
    );
    assert_eq!(
        service.get("ada", &format!("/v1/turns/{second}")).await.status,
        200
    );
    assert_eq!(
        service
            .call("ada", Method::DELETE, "/v1/sessions/two", &Value::Null)
            .await
            .status,
        204
    );
    assert_eq!(service.titles("ada").await, ["Rules"]);
    // The record of its turns is deleted with it.
    assert_eq!(
        service.get("ada", &format!("/v1/turns/{second}")).await.status,
        404
    );
    assert_eq!(
        service
            .call("ada", Method::DELETE, "/v1/sessions/two", &Value::Null)
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn a_finished_turn_is_read_again_by_its_owner() {
    let service = Service::start();
    let turn = service.ask("ada", "s", "Why?").await;
    let record = service.get("ada", &format!("/v1/turns/{turn}")).await.json();
    assert_eq!(
        (
            &record["question"],
            &record["answer"],
            &record["status"],
            &record["answered"]
        ),
        (
            &json!("Why?"),
            &json!("After [] [1]."),
            &json!("completed"),
            &json!(true)
        )
    );
    assert_eq!(record["citations"][0]["supporting_quote"], "a quote");
    assert_eq!(record["session_id"], "s");
    assert_eq!(
        service.get("ada", "/v1/sessions/s/turns").await.json()["turns"],
        json!([record])
    );
    for path in [format!("/v1/turns/{turn}"), "/v1/sessions/s/turns".to_owned()] {
        assert_eq!(service.get("bob", &path).await.status, 404, "{path}");
    }
    assert_eq!(service.get("ada", "/v1/turns/x").await.status, 404);
}

#[tokio::test]
async fn a_session_goes_back_to_an_earlier_turn() {
    let service = Service::start();
    service.ask("ada", "s", "1").await;
    let second = service.ask("ada", "s", "2").await;
    let third = service.ask("ada", "s", "3").await;
    let from = |turn: &str| format!("/v1/sessions/s/turns/{turn}");
    assert_eq!(
        service
            .call("bob", Method::DELETE, &from(&second), &Value::Null)
            .await
            .status,
        404
    );
    assert_eq!(
        service
            .call("ada", Method::DELETE, &from(&second), &Value::Null)
            .await
            .status,
        204
    );
    let again = service.ask("ada", "s", "2 again").await;
    let record = service.get("ada", &format!("/v1/turns/{again}")).await.json();
    assert_eq!(record["answer"], "After [1|After [] [1].] [1].");
    let turns = service.get("ada", "/v1/sessions/s/turns").await.json();
    let questions: Vec<_> = turns["turns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| &turn["question"])
        .collect();
    assert_eq!(questions, ["1", "2 again"]);
    assert_eq!(
        service
            .call("ada", Method::DELETE, &from(&third), &Value::Null)
            .await
            .status,
        404
    );
}

#[tokio::test]
async fn feedback_is_stored_with_its_turn_and_exported() {
    let service = Service::start();
    let turn = service.ask("ada", "s", "Why?").await;
    service.ask("ada", "s", "How?").await;
    let path = format!("/v1/turns/{turn}/feedback");
    assert_eq!(
        service.get("ada", "/v1/feedback").await.json(),
        json!({ "turns": [] })
    );
    let down = json!({ "rating": "down", "note": "The date is missing." });
    let rated = service.call("ada", Method::POST, &path, &down).await;
    assert_eq!((rated.status, &rated.json()["feedback"]), (200, &down));
    let exported = service.get("ada", "/v1/feedback").await.json();
    assert_eq!(exported, json!({ "turns": [rated.json()] }));
    assert_eq!(
        service.get("bob", "/v1/feedback").await.json(),
        json!({ "turns": [] })
    );
    assert_eq!(service.call("bob", Method::POST, &path, &down).await.status, 404);
    for (body, status) in [
        (json!({ "rating": "sideways" }), 422),
        (json!({ "rating": "up", "note": "x".repeat(4_001) }), 422),
        (json!({ "rating": "up", "note": "" }), 200),
    ] {
        assert_eq!(
            service.call("ada", Method::POST, &path, &body).await.status,
            status,
            "{body}"
        );
    }
    let record = service.get("ada", &format!("/v1/turns/{turn}")).await.json();
    assert_eq!(record["feedback"], json!({ "rating": "up" }));
    service
        .call("ada", Method::POST, &path, &json!({ "rating": null }))
        .await;
    assert_eq!(
        service.get("ada", "/v1/feedback").await.json(),
        json!({ "turns": [] })
    );
}

#[tokio::test]
async fn anonymous_callers_list_nothing_unless_there_is_one_user() {
    for (endpoints, status) in [
        (Endpoints::new(recall), 403),
        (Endpoints::new(recall).list_anonymous(), 200),
    ] {
        let app = endpoints.router();
        let body = json!({ "prompt": "Why?", "session_id": "s" }).to_string();
        let asked = call(&app, Method::POST, "/v1/turns", &[JSON], body).await;
        for path in ["/v1/sessions", "/v1/feedback"] {
            let reply = call(&app, Method::GET, path, &[], "").await;
            assert_eq!(reply.status, status, "{path}: {}", reply.text);
        }
        // Knowing an ID is enough to read what belongs to nobody.
        let turn = asked.headers["x-ragwire-turn"].to_str().unwrap();
        for path in [format!("/v1/turns/{turn}"), "/v1/sessions/s/turns".to_owned()] {
            assert_eq!(
                call(&app, Method::GET, &path, &[], "").await.status,
                200,
                "{path}"
            );
        }
    }
}
