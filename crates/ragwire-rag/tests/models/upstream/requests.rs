//! Tests of requests: their whole bodies, what is never sent, and where the key is sent.

use std::error::Error;

use ragwire_rag::models::upstream::{ApiKey, Dialect, Upstream, UpstreamOptions};
use ragwire_rag::models::{ChatMessage, LanguageModel, Prompt, Role, Sampling, Shape};
use serde_json::{Value, json};

use crate::upstream::double::{Double, Reply};
use crate::upstream::{model, once, outcome, read, within};

const GOOD: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";

/// Returns the body that is sent for a prompt.
async fn body(dialect: Dialect, prompt: Prompt) -> Value {
    let double = Double::new([Reply::events(GOOD)]).await;
    let read = read(model(once(&double.base).dialect(dialect)).generate(prompt)).await;
    assert_eq!(outcome(&read.1), "stop");
    let recorded = double.recorded().remove(0);
    assert_eq!(recorded.line, "POST /v1/chat/completions");
    let header = |name: &str| {
        recorded
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap().to_owned())
    };
    assert_eq!(header("content-type").unwrap(), "application/json");
    assert_eq!(header("accept").unwrap(), "text/event-stream, application/json");
    assert_eq!(
        header("user-agent").unwrap(),
        concat!("ragwire/", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(header("authorization"), None);
    recorded.body
}

fn full() -> Prompt {
    let messages = vec![
        ChatMessage::new(Role::System, "Be short."),
        ChatMessage::new(Role::User, "Why \"so\"?\n\u{1f44b}"),
        ChatMessage::new(Role::Assistant, ""),
    ];
    Prompt::new(messages)
        .max_tokens(7)
        .sampling(Sampling::GREEDY.temperature(0.7).top_p(0.9).seed(42))
        .stop("\n\n")
        .stop("END")
}

/// The fields that all dialects send for it.
fn common() -> Value {
    json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Why \"so\"?\n\u{1f44b}"},
            {"role": "assistant", "content": ""},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "seed": 42,
        "stop": ["\n\n", "END"],
    })
}

fn with(more: &Value) -> Value {
    let mut whole = common();
    for (name, value) in more.as_object().unwrap() {
        whole[name.as_str()] = value.clone();
    }
    whole
}

#[tokio::test]
async fn a_prompt_is_sent_in_the_fields_of_the_dialect() {
    within(async {
        let llama = full().sampling(full().sampling.top_k(40).min_p(0.05).repeat_penalty(1.1));
        let schema = json!({"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}});
        for (dialect, prompt, more) in [
            (Dialect::Plain, full(), json!({"max_tokens": 7, "temperature": 0.7, "top_p": 0.9})),
            (Dialect::OpenAi, full(), json!({"max_completion_tokens": 7, "temperature": 0.7, "top_p": 0.9})),
            (Dialect::OpenAiReasoning, llama.clone(), json!({"max_completion_tokens": 7})),
            (
                Dialect::LlamaCpp,
                llama.clone(),
                json!({
                    "max_tokens": 7, "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1, "repeat_last_n": 64,
                }),
            ),
            (
                Dialect::Vllm,
                llama.clone(),
                json!({
                    "max_tokens": 7, "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "repetition_penalty": 1.1,
                }),
            ),
            (
                Dialect::Vllm,
                full(),
                json!({
                    "max_tokens": 7, "temperature": 0.7, "top_p": 0.9, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0,
                }),
            ),
            (
                Dialect::Plain,
                full().shape(Shape::Json(schema.clone())),
                json!({
                    "max_tokens": 7, "temperature": 0.7, "top_p": 0.9,
                    "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": schema}},
                }),
            ),
        ] {
            assert_eq!(body(dialect, prompt).await, with(&more), "{dialect:?}");
        }
        // The smallest request: no seed, no stop text.
        assert_eq!(
            body(Dialect::Plain, Prompt::user("Why?")).await,
            json!({
                "model": "m", "messages": [{"role": "user", "content": "Why?"}], "stream": true, "stream_options": {"include_usage": true},
                "max_tokens": 1024, "temperature": 0.0, "top_p": 1.0,
            })
        );
    })
    .await;
}

#[tokio::test]
async fn an_unsupported_prompt_is_refused_before_anything_is_sent() {
    within(async {
        let why = || Prompt::user("Why?");
        let sampled = |sampling: Sampling| why().sampling(sampling);
        let greedy = Sampling::GREEDY;
        let stops = |count: usize| (0..count).fold(why(), |prompt, at| prompt.stop(at.to_string()));
        for (dialect, prompt, code) in [
            (Dialect::Plain, Prompt::new(Vec::new()), "bad_prompt"),
            (Dialect::Plain, Prompt::user(" \n"), "bad_prompt"),
            (Dialect::Plain, why().max_tokens(0), "bad_prompt"),
            (Dialect::Plain, why().stop(""), "bad_prompt"),
            (Dialect::Plain, sampled(greedy.temperature(-0.1)), "bad_prompt"),
            (
                Dialect::Plain,
                sampled(greedy.temperature(f32::NAN)),
                "bad_prompt",
            ),
            (
                Dialect::Plain,
                sampled(greedy.temperature(f32::INFINITY)),
                "bad_prompt",
            ),
            (Dialect::Plain, sampled(greedy.top_p(0.0)), "bad_prompt"),
            (Dialect::Plain, sampled(greedy.top_p(f32::NAN)), "bad_prompt"),
            (Dialect::LlamaCpp, sampled(greedy.min_p(1.1)), "bad_prompt"),
            (
                Dialect::LlamaCpp,
                sampled(greedy.repeat_penalty(0.0)),
                "bad_prompt",
            ),
            (
                Dialect::LlamaCpp,
                sampled(greedy.repeat_penalty(f32::NAN)),
                "bad_prompt",
            ),
            (
                Dialect::Plain,
                why().shape(Shape::Json(json!("object"))),
                "bad_shape",
            ),
            (Dialect::Plain, sampled(greedy.top_k(40)), "model_unsupported"),
            (Dialect::Plain, sampled(greedy.min_p(0.1)), "model_unsupported"),
            (
                Dialect::OpenAi,
                sampled(greedy.repeat_penalty(1.1)),
                "model_unsupported",
            ),
            (Dialect::OpenAi, stops(5), "model_unsupported"),
        ] {
            let double = Double::new([]).await;
            let (_, end) = read(model(once(&double.base).dialect(dialect)).generate(prompt.clone())).await;
            assert_eq!(
                (outcome(&end).as_str(), double.opened()),
                (code, 0),
                "{dialect:?} {prompt:?}"
            );
        }
        assert_eq!(
            body(Dialect::OpenAi, stops(4)).await["stop"],
            json!(["0", "1", "2", "3"])
        );
        assert_eq!(
            body(Dialect::Plain, stops(5)).await["stop"],
            json!(["0", "1", "2", "3", "4"])
        );
    })
    .await;
}

/// Returns an error with all its sources, displayed and in debug format.
fn everything(error: &dyn Error) -> String {
    let mut whole = format!("{error} {error:?}");
    let mut next = error.source();
    while let Some(error) = next {
        whole.push_str(&format!(" {error} {error:?}"));
        next = error.source();
    }
    whole
}

#[tokio::test]
async fn the_key_is_sent_in_its_header_only() {
    within(async {
        let keyed = |base: &str| {
            let options: UpstreamOptions = once(base).key(ApiKey::new("sk-s3cret").unwrap());
            assert!(!format!("{options:?}").contains("s3cret"));
            let model: Upstream = model(options);
            assert!(!format!("{model:?}").contains("s3cret"));
            model
        };
        let body = json!({"error": {"message": "Incorrect key: sk-s3cret. See sk-s3cret", "code": 401}});
        for reply in [
            Reply::json(401, &body),
            Reply::json(400, &body),
            Reply::events(format!("data: {body}\n\n")),
            Reply::events("data: sk-s3cret\n\n"),
            Reply::new(200, "text/sk-s3cret", "sk-s3cret"),
        ] {
            let double = Double::new([reply]).await;
            let (_, end) = read(keyed(&double.base).generate(Prompt::user("Why?"))).await;
            let authorization = &double.recorded()[0].headers["authorization"];
            assert_eq!(authorization, "Bearer sk-s3cret");
            let shown = everything(&end.unwrap_err());
            assert!(!shown.contains("s3cret"), "{shown}");
        }
        let (_, end) = read(keyed("http://127.0.0.1:1/v1").generate(Prompt::user("Why?"))).await;
        assert!(!everything(&end.unwrap_err()).contains("s3cret"));
    })
    .await;
}

#[tokio::test]
async fn tokens_are_counted_by_the_server_if_it_can() {
    within(async {
        let prompt = || Prompt::new(vec![ChatMessage::new(Role::User, "x".repeat(100))]);
        let message = json!([{"role": "user", "content": "x".repeat(100)}]);
        // 100 bytes at 2 bytes per token, plus twice 8.
        let estimate = 66;
        let applied = || Reply::json(200, &json!({"prompt": "<user>x<end>"}));
        let tokens = || Reply::json(200, &json!({"tokens": [1, 2, {"id": 3, "piece": "x"}]}));
        let counted = || Reply::json(200, &json!({"count": 12, "max_model_len": 9, "tokens": [1]}));
        for (dialect, replies, expected, asked) in [
            (Dialect::Plain, vec![], estimate, vec![]),
            (
                Dialect::LlamaCpp,
                vec![applied(), tokens()],
                3,
                vec![
                    ("POST /apply-template", json!({"messages": message})),
                    (
                        "POST /tokenize",
                        json!({"content": "<user>x<end>", "add_special": true, "parse_special": true}),
                    ),
                ],
            ),
            (
                Dialect::Vllm,
                vec![counted()],
                12,
                vec![("POST /tokenize", json!({"model": "m", "messages": message}))],
            ),
            // After any failure the estimate is used.
            (
                Dialect::Vllm,
                vec![Reply::json(404, &json!({}))],
                estimate,
                vec![("POST /tokenize", json!({"model": "m", "messages": message}))],
            ),
            (
                Dialect::LlamaCpp,
                vec![Reply::json(200, &json!([]))],
                estimate,
                vec![("POST /apply-template", json!({"messages": message}))],
            ),
        ] {
            let double = Double::new(replies).await;
            let model = model(once(&double.base).dialect(dialect));
            assert_eq!(
                model.count_tokens(&prompt()).await.unwrap(),
                expected,
                "{dialect:?}"
            );
            let recorded: Vec<(String, Value)> = double
                .recorded()
                .into_iter()
                .map(|recorded| (recorded.line, recorded.body))
                .collect();
            let asked: Vec<(String, Value)> = asked
                .into_iter()
                .map(|(line, body)| (line.to_owned(), body))
                .collect();
            assert_eq!(recorded, asked, "{dialect:?}");
        }
        let model = model(
            once("http://127.0.0.1:1/v1")
                .dialect(Dialect::Vllm)
                .bytes_per_token(1)
                .context_tokens(0),
        );
        assert_eq!(model.count_tokens(&prompt()).await.unwrap(), 116);
        assert_eq!((model.context_tokens(), model.name()), (1, "m"));
    })
    .await;
}
