//! What Ollama's routes honour and what they refuse.

use serde_json::{Value, json};

use super::{Asked, TEXT, post};

/// A picture of one pixel, in base 64; only its beginning matters here.
const PNG: &str = "iVBORw0KGgo=";

fn chat(member: &str, value: Value) -> Value {
    let mut body = json!({
        "model": "ragwire",
        "messages": [{ "role": "user", "content": "Why?" }],
        "stream": false,
    });
    body[member] = value;
    body
}

fn generate(member: &str, value: Value) -> Value {
    let mut body = json!({ "model": "ragwire:latest", "prompt": "Why?", "stream": false });
    body[member] = value;
    body
}

#[tokio::test]
async fn options_are_honoured_or_refused() {
    let asked = Asked::default();
    let app = asked.endpoints().router();
    for (path, body) in [
        ("/api/chat", chat as fn(&str, Value) -> Value),
        ("/api/generate", generate),
    ] {
        for (member, value, name) in [
            ("options", json!({ "temperature": 0.1 }), "options.temperature"),
            ("options", json!({ "num_predict": 5 }), "options.num_predict"),
            ("options", json!({ "stop": ["\n"] }), "options.stop"),
            ("format", json!("json"), "format"),
            ("format", json!({ "type": "object" }), "format"),
            ("tools", json!([{ "type": "function" }]), "tools"),
        ] {
            let reply = post(&app, path, &body(member, value)).await;
            assert_eq!(reply.status, 400, "{path} {name}: {}", reply.text);
            let expected = format!("`{name}` is not supported with this value; leave it out");
            assert_eq!(reply.json(), json!({ "error": expected }));
        }
        for (member, value) in [
            ("keep_alive", json!(-1)),
            (
                "options",
                json!({ "num_ctx": 8192, "seed": 7, "temperature": 0.8 }),
            ),
        ] {
            assert_eq!(post(&app, path, &body(member, value)).await.status, 200);
        }
        let honouring = asked
            .endpoints()
            .openai_parameters(["temperature", "max_tokens"])
            .structured_results()
            .router();
        let mut request = body(
            "options",
            json!({ "temperature": 0.1, "num_predict": 5, "num_gpu": 1 }),
        );
        request["format"] = json!("json");
        assert_eq!(post(&honouring, path, &request).await.status, 200);
        let options = asked.last().options;
        assert_eq!(
            json!(options.extra),
            json!({ "temperature": 0.1, "max_tokens": 5 })
        );
        assert_eq!(options.output_schema, Some(json!({ "type": "object" })));
    }
}

#[tokio::test]
async fn a_prompt_is_answered_in_the_form_of_generate() {
    let asked = Asked::default();
    let app = asked.endpoints().router();
    let whole = post(&app, "/api/generate", &generate("system", json!("Be brief.")))
        .await
        .json();
    assert_eq!([&whole["response"], &whole["done"]], [&json!(TEXT), &json!(true)]);
    assert_eq!(whole["thinking"], "Searching with bm25: Why?\n");
    assert_eq!(asked.last().options.instructions.as_deref(), Some("Be brief."));
    let streamed = post(&app, "/api/generate", &generate("stream", json!(true))).await;
    let lines: Vec<Value> = streamed
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let text: String = lines
        .iter()
        .map(|line| line["response"].as_str().unwrap())
        .collect();
    assert_eq!(text, TEXT);
    assert!(lines.iter().all(|line| line.get("message").is_none()));
    let quiet = post(&app, "/api/generate", &generate("think", json!(false)))
        .await
        .json();
    assert_eq!(quiet.get("thinking"), None);
    let loaded = post(&app, "/api/generate", &json!({ "model": "ragwire" }))
        .await
        .json();
    assert_eq!(loaded["done_reason"], "load");
    let unknown = post(
        &app,
        "/api/generate",
        &json!({ "model": "llama3", "prompt": "?" }),
    )
    .await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test]
async fn images_are_attachments_or_refused() {
    let asked = Asked::default();
    let messages = json!([{ "role": "user", "content": "What is it?", "images": [PNG] }]);
    for (path, body) in [
        ("/api/chat", chat("messages", messages)),
        ("/api/generate", generate("images", json!([PNG]))),
    ] {
        let refused = post(&asked.endpoints().router(), path, &body).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        let reading = asked.endpoints().attachments().router();
        assert_eq!(post(&reading, path, &body).await.status, 200);
        let question = asked.last();
        let [image] = &question.attachments[..] else {
            panic!("{question:?}")
        };
        assert_eq!(image.media_type, "image/png");
        assert_eq!(image.url, format!("data:image/png;base64,{PNG}"));
    }
}
