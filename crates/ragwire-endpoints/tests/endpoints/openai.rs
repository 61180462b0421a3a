//! What the protocols of OpenAI honour and what they refuse.

use ragwire::orchestrator::Effort;
use serde_json::{Value, json};

use super::{Asked, completion, get, post};

#[tokio::test]
async fn parameters_of_openai_are_honoured_or_refused() {
    let asked = Asked::default();
    let app = asked.endpoints().router();
    let with = |name: &str, value: Value| {
        let mut body = completion();
        body[name] = value;
        body
    };
    for (name, value) in [
        ("n", json!(2)),
        ("temperature", json!(0.2)),
        ("max_tokens", json!(100)),
        (
            "tools",
            json!([{ "type": "function", "function": { "name": "f" } }]),
        ),
        (
            "response_format",
            json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": {} } }),
        ),
    ] {
        let reply = post(&app, "/v1/chat/completions", &with(name, value)).await;
        let error = &reply.json()["error"];
        assert_eq!(reply.status, 400, "{name}");
        assert_eq!(
            [&error["type"], &error["code"], &error["param"]],
            [
                &json!("invalid_request_error"),
                &json!("unsupported_parameter"),
                &json!(name)
            ]
        );
    }
    for (name, value) in [
        ("n", json!(1)),
        ("user", json!("u")),
        ("stream_options", json!(null)),
    ] {
        let reply = post(&app, "/v1/chat/completions", &with(name, value)).await;
        assert_eq!(reply.status, 200, "{name}: {}", reply.text);
    }

    let app = asked
        .endpoints()
        .openai_parameters(["temperature"])
        .structured_results()
        .name("acme")
        .router();
    let mut body = with("temperature", json!(0.2));
    let schema = json!({ "type": "object" });
    body["response_format"] =
        json!({ "type": "json_schema", "json_schema": { "name": "a", "schema": schema } });
    let unknown = post(&app, "/v1/chat/completions", &body).await;
    assert_eq!(
        (unknown.status, &unknown.json()["error"]["code"]),
        (404, &"model_not_found".into())
    );
    body["model"] = "acme".into();
    assert_eq!(post(&app, "/v1/chat/completions", &body).await.status, 200);
    let options = asked.last().options;
    assert_eq!(
        (options.output_schema, &options.extra["temperature"]),
        (Some(schema), &json!(0.2))
    );
    assert_eq!(get(&app, "/v1/models").await.json()["data"][0]["id"], "acme");
}

/// The body of a response request that is honoured.
fn response() -> Value {
    json!({ "model": "ragwire", "input": "Why?" })
}

#[tokio::test]
async fn parameters_of_responses_are_honoured_or_refused() {
    let asked = Asked::default();
    let app = asked.endpoints().router();
    let with = |name: &str, value: Value| {
        let mut body = response();
        body[name] = value;
        body
    };
    let schema = json!({ "format": { "type": "json_schema", "name": "a", "schema": {} } });
    for (name, value) in [
        ("temperature", json!(0.2)),
        ("max_output_tokens", json!(100)),
        ("conversation", json!("conv_1")),
        ("truncation", json!("auto")),
        ("reasoning", json!({ "effort": "extreme" })),
        ("tools", json!([{ "type": "web_search" }])),
        ("text", schema.clone()),
        ("text", json!({ "format": { "type": "json_object" } })),
    ] {
        let reply = post(&app, "/v1/responses", &with(name, value)).await;
        let error = &reply.json()["error"];
        assert_eq!(reply.status, 400, "{name}: {}", reply.text);
        assert_eq!(
            [&error["code"], &error["param"]],
            [&json!("unsupported_parameter"), &json!(name)]
        );
    }

    let app = asked
        .endpoints()
        .openai_parameters(["temperature"])
        .structured_results()
        .router();
    let mut body = with("temperature", json!(0.2));
    body["input"] = json!([
        { "role": "developer", "content": "Be brief." },
        { "role": "user", "content": "Why?" },
    ]);
    body["instructions"] = "Answer in French.".into();
    body["reasoning"] = json!({ "effort": "low", "summary": "auto" });
    body["text"] = schema;
    body["include"] = json!(["file_search_call.results"]);
    let reply = post(&app, "/v1/responses", &body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let question = asked.last();
    assert_eq!((&*question.prompt, question.effort), ("Why?", Effort::Low));
    let options = question.options;
    assert_eq!(
        options.instructions.as_deref(),
        Some("Answer in French.\n\nBe brief.")
    );
    assert_eq!(
        (options.output_schema, &options.extra["temperature"]),
        (Some(json!({})), &json!(0.2))
    );
}
