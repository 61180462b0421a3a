//! Users, who are named by a header of a proxy, and what they may not do to each other.

use std::sync::Arc;

use http::Method;
use ragwire::orchestrator::Answering;
use ragwire::{Metadata, Orchestrator, Question, Sink};
use ragwire_rag::Library;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::Header;
use serde_json::json;

use crate::filters::{QUESTION, requests};
use crate::openapi::operations;
use crate::support::{JSON, Reply, Running, WHOLE, start, start_with};
use crate::trustgraph::Socket;

/// Routes for everyone: the page, the state of the server, and what a client asks for before it knows
/// its user. None of them has anything of a user. Every other route checks the owner.
const PUBLIC: [&str; 20] = [
    "get /",
    "get /api/ps",
    "get /api/tags",
    "get /api/version",
    "get /assistants/{assistant_id}",
    "get /eve/v1/health",
    "get /eve/v1/info",
    "get /healthz",
    "get /icon.svg",
    "get /info",
    "get /livez",
    "get /metrics",
    "get /openapi.json",
    "get /page.css",
    "get /page.js",
    "get /readyz",
    "get /v1/models",
    "get /v1/models/{model}",
    "post /api/show",
    "post /assistants/search",
];
/// The modules of the page.
const PUBLIC_FOLDERS: [&str; 2] = ["get /page/", "get /client/"];

fn with_owners(settings: &mut Settings) {
    settings.owner_header = Header(Some("x-user".parse().unwrap()));
}

#[tokio::test]
async fn every_route_is_public_by_name_or_checks_the_owner() {
    let server = start(with_owners).await;
    let document = server.get("/openapi.json").await.json();
    let mut unused: Vec<_> = PUBLIC.to_vec();
    let mut wrong = Vec::new();
    for (method, path, _) in operations(&document) {
        let route = format!("{method} {path}");
        unused.retain(|public| *public != route);
        let is_public =
            PUBLIC.contains(&&*route) || PUBLIC_FOLDERS.iter().any(|folder| route.starts_with(folder));
        let path = path.replace(['{', '}'], "");
        let method: Method = method.to_uppercase().parse().unwrap();
        for (users, is_named) in [
            (&[][..], false),
            (&[""], false),
            (&[" "], false),
            (&["alice", "bob"], false),
            (&["alice"], true),
        ] {
            let mut headers = vec![JSON];
            headers.extend(users.iter().map(|user| ("x-user", *user)));
            let status = server.send(method.clone(), &path, &headers, "{}").await.status();
            if (status == 401) == (is_public || is_named) {
                wrong.push(format!("{route} as {users:?}: {status}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(unused, [""; 0], "public routes that do not exist");
}

async fn as_user(server: &Running, user: &str, method: Method, path: &str, body: &str) -> Reply {
    let headers = [("x-user", user), ("content-type", "text/markdown")];
    server.call(method, path, &headers, body.to_owned()).await
}

#[tokio::test]
async fn nobody_else_finds_a_private_document() {
    let server = start(with_owners).await;
    let text = "# Diary\n\nThe robin of Alice sings at noon.";
    let added = as_user(
        &server,
        "alice",
        Method::POST,
        "/v1/documents?name=diary.md",
        text,
    )
    .await;
    assert_eq!(added.status, 201);
    let added = &added.json()["documents"][0];
    assert_eq!(
        (&added["shared"], &added["removable"]),
        (&json!(false), &json!(true))
    );
    let id = added["id"].as_str().unwrap().to_owned();

    for (user, finds) in [("alice", true), ("bob", false)] {
        let headers = [JSON, ("x-user", user)];
        let call =
            async |method, path: &str, body: &str| server.call(method, path, &headers, body.to_owned()).await;
        let documents = call(Method::GET, "/v1/documents?name=diary", "").await.json();
        assert_eq!(documents["total"], u64::from(finds), "{user}");
        let passage = format!("/v1/documents/{id}/chunks/{id}-0");
        assert_eq!(
            call(Method::GET, &passage, "").await.status,
            if finds { 200 } else { 404 }
        );
        for (route, body) in requests(&json!(null)) {
            let answer = call(Method::POST, route, &body.to_string()).await;
            assert_eq!(answer.status, 200, "{user} {route}: {}", answer.text());
            assert_eq!(
                answer.text().contains("at noon"),
                finds,
                "{user} {route}: {}",
                answer.text()
            );
        }
        // A question about what there is names the only document.
        let service = "/api/v1/flow/default/service/document-rag";
        let answer = call(Method::POST, service, r#"{"query":"hello"}"#).await;
        assert!(answer.text().contains("document"), "{}", answer.text());
        assert!(
            finds || !answer.text().to_lowercase().contains("diary"),
            "{}",
            answer.text()
        );
        if !finds {
            let removed = call(Method::DELETE, &format!("/v1/documents/{id}"), "").await;
            assert_eq!(
                (removed.status.as_u16(), removed.code()),
                (404, "not_found".to_owned())
            );
        }
    }

    // Uploaded again, it is shared.
    let path = "/v1/documents?name=diary.md&shared=true";
    let shared = as_user(&server, "alice", Method::POST, path, text).await.json();
    assert_eq!(shared["documents"][0]["shared"], true);
    let headers = [JSON, ("x-user", "bob")];
    let question = json!({ "prompt": QUESTION }).to_string();
    let answer = server.call(Method::POST, WHOLE, &headers, question).await;
    assert!(answer.text().contains("at noon"), "{}", answer.text());

    let bad = as_user(
        &server,
        "alice",
        Method::POST,
        "/v1/documents?name=a.md&shared=yes",
        text,
    )
    .await;
    assert_eq!((bad.status.as_u16(), bad.code()), (400, "bad_query".to_owned()));
}

#[tokio::test]
async fn a_server_without_users_has_no_private_documents() {
    let server = start(|_| {}).await;
    let upload = async |query: &str| {
        let headers = [("content-type", "text/markdown")];
        let path = format!("/v1/documents?name=a.md{query}");
        server.call(Method::POST, &path, &headers, "The owl sees.").await
    };
    let refused = upload("&shared=false").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code()),
        (400, "bad_query".to_owned())
    );
    for query in ["", "&shared=true"] {
        let added = upload(query).await;
        assert_eq!(
            (added.status.as_u16(), added.json()["documents"][0].get("shared")),
            (201, None)
        );
    }
}

#[tokio::test]
async fn users_change_only_their_own_documents() {
    let server = start(with_owners).await;
    let shared = server.app.library().unwrap().list()[0].id.clone();
    let upload = async |user, text| {
        as_user(
            &server,
            user,
            Method::POST,
            "/v1/documents?name=owl.md&shared=true",
            text,
        )
        .await
    };
    let remove = async |user, id: &str| {
        let path = format!("/v1/documents/{id}");
        as_user(&server, user, Method::DELETE, &path, "").await
    };
    let refused = |reply: &Reply| (reply.status.as_u16(), reply.code());
    let not_owner = |status| (status, "not_owner".to_owned());

    let added = upload("alice", "The owl sees at night.").await;
    assert_eq!(added.status, 201);
    let of_alice = added.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    // Another user may use the same name, and learns nothing of the other document.
    let of_bob = as_user(
        &server,
        "bob",
        Method::POST,
        "/v1/documents?name=owl.md",
        "The owl is blind.",
    )
    .await;
    let of_bob = of_bob.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        refused(&remove("alice", &of_bob).await),
        (404, "not_found".to_owned())
    );
    assert_eq!(remove("bob", &of_bob).await.status, 204);
    assert_eq!(refused(&remove("bob", &of_alice).await), not_owner(403));
    assert_eq!(refused(&remove("alice", &shared).await), not_owner(403));
    assert_eq!(
        server
            .call(Method::DELETE, &format!("/v1/documents/{of_alice}"), &[], "")
            .await
            .status,
        401
    );

    // Each user sees which documents they may remove.
    let removable = async |user| {
        let listed = as_user(&server, user, Method::GET, "/v1/documents", "")
            .await
            .json();
        let documents = listed["documents"].as_array().unwrap().clone();
        let may = documents.iter().filter(|document| document["removable"] == true);
        let may: Vec<_> = may
            .map(|document| document["id"].as_str().unwrap().to_owned())
            .collect();
        (may, documents.len())
    };
    let (of_her, all) = removable("alice").await;
    assert_eq!(of_her, std::slice::from_ref(&of_alice));
    assert_eq!(removable("bob").await, (Vec::new(), all));

    // All users search what is shared.
    let headers = [JSON, ("x-user", "bob")];
    let question = r#"{"prompt":"When does the owl see?"}"#;
    let answer = server.call(Method::POST, WHOLE, &headers, question).await.json();
    assert_eq!(answer["citations"][0]["document_id"], *of_alice, "{answer}");

    let replaced = upload("alice", "The owl sees at dusk.").await;
    let of_alice = replaced.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(remove("alice", &of_alice).await.status, 204);
    assert_eq!(
        refused(&remove("alice", &of_alice).await),
        (404, "not_found".to_owned())
    );
}

#[tokio::test]
async fn users_do_not_see_each_others_sessions() {
    let server = start(with_owners).await;
    let path = "/v1/rag/sessions/secret/messages/stream";
    let body = json!({ "prompt": "fault:silent" }).to_string();
    let as_user = async |user, method, path: &str, body: String| {
        server.send(method, path, &[JSON, ("x-user", user)], body).await
    };
    let running = as_user("alice", Method::POST, path, body).await;
    assert_eq!(running.status(), 200);
    let status = async |user| {
        let headers = [("x-user", user)];
        let reply = server
            .call(Method::GET, "/v1/generation/status", &headers, "")
            .await;
        reply.json()["generating_session_id"].clone()
    };
    assert_eq!(status("alice").await, "secret");
    assert_eq!(status("bob").await, json!(null));
    let of_bob = as_user("bob", Method::GET, "/v1/sessions/secret", String::new()).await;
    assert_eq!(of_bob.status(), 404);
}

/// Answers with the name of the user.
#[derive(Debug)]
struct WhoAsks;

impl Orchestrator for WhoAsks {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        Box::pin(async move {
            sink.send(format!("You are {}.", question.owner)).await?;
            Ok(Metadata::default())
        })
    }
}

#[tokio::test]
async fn questions_on_a_socket_belong_to_its_user() {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(WhoAsks)), with_owners);
    let mut socket = Socket::open_as(&server, "alice").await;
    let request = json!({ "query": "Who am I?", "streaming": false });
    let request = json!({ "id": "1", "service": "document-rag", "flow": "default", "request": request });
    socket.send(request).await;
    let answer = socket.answer().await;
    assert!(json!(answer).to_string().contains("You are alice."), "{answer:?}");
}
