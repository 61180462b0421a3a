//! The objects of Ollama's API without a stream.

use ragwire::event::{Search, Thinking};
use ragwire::{Citation, End, Failure, Metadata, Ollama, Timestamp, Usage};
use serde_json::{Value, json};

fn wire() -> Ollama {
    Ollama::new("rag", Timestamp::parse("2026-01-02T03:04:05Z").unwrap())
}

/// As text, so that the order of members counts.
fn same(object: &Value, expected: &Value) {
    assert_eq!(object.to_string(), expected.to_string());
}

#[test]
fn a_whole_chat_has_the_steps_as_its_thinking() {
    let events = [
        (Search::new("bm25").query("why?").into(), None),
        (Thinking::new("Let me").id("1").into(), None),
        (Thinking::new(" see.").id("1").into(), None),
    ];
    let citation = Citation::new("doc-1", "c-7", "Headers wait.", "bm25");
    let metadata = Metadata::default()
        .citations(vec![citation.clone()])
        .usage(Usage::default().input_tokens(3).output_tokens(4));
    let end = End::completed(metadata);
    let ragwire = json!({
        "citations": [citation],
        "tools_used": [],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    });
    let thinking = "Searching with bm25: why?\nLet me see.";
    same(
        &wire().chat(&events, "Yes [1].", &end),
        &json!({
            "model": "rag",
            "created_at": "2026-01-02T03:04:05Z",
            "message": {"role": "assistant", "content": "Yes [1].", "thinking": thinking},
            "done": true,
            "done_reason": "stop",
            "prompt_eval_count": 3,
            "eval_count": 4,
            "ragwire": ragwire,
        }),
    );
    same(
        &wire().generate().chat(&events, "Yes [1].", &end),
        &json!({
            "model": "rag",
            "created_at": "2026-01-02T03:04:05Z",
            "response": "Yes [1].",
            "thinking": thinking,
            "done": true,
            "done_reason": "stop",
            "prompt_eval_count": 3,
            "eval_count": 4,
            "ragwire": ragwire,
        }),
    );
    for message in [
        wire().thinking(false).chat(&events, "Yes.", &end)["message"].take(),
        wire().chat(&[], "Yes.", &end)["message"].take(),
    ] {
        assert_eq!(message, json!({"role": "assistant", "content": "Yes."}));
    }
}

#[test]
fn a_failure_is_an_error() {
    let failure = Failure::new("busy", "Full.");
    let error = json!({"error": "Full."});
    same(&Ollama::error(&failure), &error);
    same(&wire().chat(&[], "Ye", &End::failed(failure)), &error);
}

#[test]
fn the_models_have_every_member_that_clients_require() {
    let tags = Ollama::tags(
        &["rag", "rag-large"],
        Timestamp::parse("2026-01-02T03:04:05Z").unwrap(),
    );
    let model = |name: &str| {
        json!({
            "name": name,
            "model": name,
            "modified_at": "2026-01-02T03:04:05Z",
            "size": 0,
            "digest": "",
            "details": {
                "parent_model": "",
                "format": "ragwire",
                "family": "ragwire",
                "families": ["ragwire"],
                "parameter_size": "",
                "quantization_level": "",
            },
        })
    };
    same(&tags, &json!({"models": [model("rag"), model("rag-large")]}));
}
