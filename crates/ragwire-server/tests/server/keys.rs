//! API keys: every route is public by name or needs a key that may do what it asks.

use std::io::Write;

use http::Method;
use ragwire_server::keys::{Access, Scope, access};
use ragwire_server::settings::values::File;
use serde_json::json;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::openapi::operations;
use crate::support::{JSON, Reply, Running, WHOLE, start};

/// Routes for everyone. None of them has anything of a user.
const PUBLIC: [&str; 18] = [
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

/// Returns the line of a key in the file.
fn line(key: &str, owner: &str, rest: &str) -> String {
    let digest: String = Sha256::digest(key)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{digest} owner={owner} {rest}\n")
}

/// A file with one key per scope, named as the scope, all of alice.
fn keys() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    for scope in Scope::ALL {
        let rest = format!("scopes={}", scope.name());
        file.write_all(line(scope.name(), "alice", &rest).as_bytes())
            .unwrap();
    }
    file
}

async fn start_with_keys(file: &NamedTempFile) -> Running {
    start(|settings| settings.api_keys = File(Some(file.path().to_owned()))).await
}

fn refused(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.code())
}

#[tokio::test]
async fn every_route_is_public_by_name_or_needs_a_scope() {
    let file = keys();
    let server = start_with_keys(&file).await;
    let document = server.get("/openapi.json").await.json();
    let mut unused = PUBLIC.to_vec();
    let mut wrong = Vec::new();
    for (method, template, _) in operations(&document) {
        let route = format!("{method} {template}");
        unused.retain(|public| *public != route);
        let is_public =
            PUBLIC.contains(&&*route) || PUBLIC_FOLDERS.iter().any(|folder| route.starts_with(folder));
        let path = template.replace(['{', '}'], "");
        let method: Method = method.to_uppercase().parse().unwrap();
        let needed: Vec<_> = match access(&method, template) {
            Access::Public => Vec::new(),
            Access::AnyKey => Scope::ALL.to_vec(),
            Access::OneOf(scopes) => scopes.to_vec(),
        };
        if is_public != needed.is_empty() {
            wrong.push(format!("{route} needs {needed:?}"));
        }
        let all = Scope::ALL.map(|scope| (Some(scope.name()), needed.contains(&scope)));
        let cases = [(None, false), (Some("unknown"), false)].into_iter().chain(all);
        for (key, is_allowed) in cases {
            let bearer = format!("Bearer {}", key.unwrap_or_default());
            let mut headers = vec![JSON];
            headers.extend(key.map(|_| ("authorization", &*bearer)));
            let status = server
                .send(method.clone(), &path, &headers, "{}")
                .await
                .status()
                .as_u16();
            let is_known = key.is_some_and(|key| key != "unknown");
            let as_expected = match (is_public || is_allowed, is_known) {
                (true, _) => status != 401 && status != 403,
                (false, true) => status == 403,
                (false, false) => status == 401,
            };
            if !as_expected {
                wrong.push(format!("{route} with {key:?}: {status}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
    assert_eq!(unused, [""; 0], "public routes that do not exist");
}

/// The refusals of the check are documented at the routes where it refuses, and nowhere else.
#[tokio::test]
async fn the_document_says_which_routes_need_a_key() {
    let file = keys();
    let document = start_with_keys(&file).await.get("/openapi.json").await.json();
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    let mut wrong = Vec::new();
    for (method, path, operation) in operations(&document) {
        let access = access(&method.to_uppercase().parse().unwrap(), path);
        let named: Vec<&String> = operation["security"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|requirement| requirement.as_object().unwrap().keys())
            .collect();
        let needs_key = access != Access::Public;
        let expected: &[&str] = if needs_key {
            &["apiKey", "basic", "bearer"]
        } else {
            &[]
        };
        if named != expected {
            wrong.push(format!("{method} {path}: {named:?}"));
        }
        if needs_key {
            let has_scope = matches!(access, Access::OneOf(_));
            let statuses = [("401", true), ("403", has_scope), ("429", true)];
            for (status, _) in statuses.into_iter().filter(|(_, is_needed)| *is_needed) {
                let response = &operation["responses"][status];
                if !response["description"]
                    .as_str()
                    .unwrap_or_default()
                    .contains("API key")
                {
                    wrong.push(format!("{method} {path}: {status}"));
                }
            }
            let after = &operation["responses"]["429"]["headers"]["retry-after"];
            assert!(after.is_object(), "{method} {path}");
        }
    }
    assert_eq!(wrong, [""; 0]);
    let schemes: Vec<_> = schemes
        .iter()
        .map(|(name, scheme)| (&**name, scheme["type"].as_str().unwrap()))
        .collect();
    assert_eq!(
        schemes,
        [("apiKey", "apiKey"), ("basic", "http"), ("bearer", "http")]
    );
    // Without keys no route needs one.
    let open = start(|_| {}).await.get("/openapi.json").await.json();
    assert!(open["components"].get("securitySchemes").is_none());
    assert!(
        operations(&open)
            .iter()
            .all(|(.., operation)| operation.get("security").is_none())
    );
}

#[tokio::test]
async fn a_key_has_its_own_conversations_and_documents() {
    let mut file = keys();
    file.write_all(line("of-bob", "bob", "scopes=ask,documents").as_bytes())
        .unwrap();
    let server = start_with_keys(&file).await;
    let as_key = async |key: &str, method, path: &str, body: &str| {
        let headers = [JSON, ("x-api-key", key)];
        server.call(method, path, &headers, body.to_owned()).await
    };
    let question = json!({ "prompt": "fault:no-events" }).to_string();
    assert_eq!(as_key("ask", Method::POST, WHOLE, &question).await.status, 200);
    for (key, status) in [("ask", 200), ("read", 200), ("of-bob", 404)] {
        let session = as_key(key, Method::GET, "/v1/sessions/s1", "").await;
        assert_eq!(session.status, status, "{key}");
    }
    let upload = "/v1/documents?name=owl.md";
    let headers = [("content-type", "text/markdown"), ("x-api-key", "documents")];
    let added = server
        .call(Method::POST, upload, &headers, "The owl sees at night.")
        .await;
    assert_eq!(added.status, 201);
    let id = added.json()["documents"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/documents/{id}");
    let other = as_key("of-bob", Method::DELETE, &path, "").await;
    assert_eq!(refused(&other), (404, "not_found".to_owned()));
    assert_eq!(as_key("documents", Method::DELETE, &path, "").await.status, 204);
}

#[tokio::test]
async fn a_browser_is_asked_for_the_key_and_a_program_is_told() {
    let file = keys();
    let server = start_with_keys(&file).await;
    let page = server.get("/").await;
    assert_eq!(page.status, 401);
    assert!(
        page.headers["www-authenticate"]
            .to_str()
            .unwrap()
            .starts_with("Basic ")
    );
    // `any:read`
    let headers = [("authorization", "Basic YW55OnJlYWQ=")];
    assert_eq!(server.call(Method::GET, "/", &headers, "").await.status, 200);
    let sessions = server.get("/v1/sessions").await;
    assert_eq!(refused(&sessions), (401, "unauthorized".to_owned()));
    assert!(
        sessions.headers["www-authenticate"]
            .to_str()
            .unwrap()
            .starts_with("Bearer ")
    );
}

#[tokio::test]
async fn a_key_has_its_rate() {
    let mut file = keys();
    file.write_all(line("slow", "bob", "scopes=read rate=2").as_bytes())
        .unwrap();
    let server = start_with_keys(&file).await;
    let ask = async |key| {
        let headers = [("x-api-key", key)];
        server.call(Method::GET, "/v1/sessions", &headers, "").await
    };
    assert_eq!(ask("slow").await.status, 200);
    assert_eq!(ask("slow").await.status, 200);
    let refusal = ask("slow").await;
    assert_eq!(refused(&refusal), (429, "rate_limited".to_owned()));
    let after: u64 = refusal.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=30).contains(&after), "{after}");
    assert_eq!(ask("read").await.status, 200, "another key has its own rate");
}

#[tokio::test]
async fn the_file_is_read_again_and_a_mistake_changes_nothing() {
    let file = keys();
    let server = start_with_keys(&file).await;
    let keys = server.app.keys.as_ref().unwrap();
    let status = async |key| {
        let headers = [("x-api-key", key)];
        server
            .call(Method::GET, "/v1/sessions", &headers, "")
            .await
            .status
    };
    let new = line("new", "carol", "scopes=read");
    std::fs::write(file.path(), format!("{new}not a key\n")).unwrap();
    assert!(keys.load().is_err());
    assert_eq!(
        (status("read").await.as_u16(), status("new").await.as_u16()),
        (200, 401)
    );
    std::fs::write(file.path(), new).unwrap();
    assert_eq!(keys.load().unwrap(), 1);
    assert_eq!(
        (status("read").await.as_u16(), status("new").await.as_u16()),
        (401, 200)
    );
}
