//! What every response has: the ID of its request and its timing.

use http::Method;
use serde_json::{Value, json};

use crate::support::{JSON, WHOLE, start};

#[tokio::test]
async fn every_response_has_the_id_of_its_request_and_its_timing() {
    let server = start(|_| {}).await;
    let question = json!({ "prompt": "fault:no-events" }).to_string();
    let fails = json!({ "prompt": "fault:reject" }).to_string();
    for (method, path, body, status) in [
        (Method::GET, "/livez", "", 200),
        (Method::GET, "/", "", 200),
        (Method::GET, "/nowhere", "", 404),
        (Method::PUT, "/livez", "", 405),
        (Method::POST, WHOLE, &question, 200),
        (Method::POST, WHOLE, &fails, 500),
        (Method::POST, WHOLE, "{}", 422),
        (Method::POST, "/v1/chat/completions", "{", 400),
    ] {
        for id in [Some("proxy-7:a_b.c=1"), Some("not an id"), None] {
            let mut headers = vec![JSON];
            headers.extend(id.map(|id| ("x-request-id", id)));
            let reply = server.call(method.clone(), path, &headers, body.to_owned()).await;
            assert_eq!(reply.status, status, "{path}");
            let answered = reply.headers["x-request-id"].to_str().unwrap();
            match id {
                Some(id) if id != "not an id" => assert_eq!(answered, id),
                _ => assert!(answered.len() == 32 && answered.bytes().all(|b| b.is_ascii_hexdigit())),
            }
            let timing = reply.headers["server-timing"].to_str().unwrap();
            let ms = timing.strip_prefix("app;dur=").unwrap();
            assert!(ms.parse::<f64>().is_ok(), "{timing}");
            if let Ok(body) = serde_json::from_slice::<Value>(&reply.body)
                && let Some(in_body) = body["error"]["request_id"].as_str()
            {
                // The refusal of a turn has the turn's ID.
                assert_eq!(
                    in_body == answered,
                    body["error"]["code"] != "chat_failed",
                    "{path}"
                );
            }
        }
    }
}
