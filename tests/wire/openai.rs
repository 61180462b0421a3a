//! The chat completions objects of an answer without a stream, compared with
//! `tests/vectors/openai_twins`, which the published clients read too.

use ragwire::event::{Search, Thinking};
use ragwire::wire::openai::OnFailure;
use ragwire::{Citation, End, Failure, Metadata, OpenAi, Usage};
use serde_json::Value;

fn twin(name: &str) -> Value {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/openai_twins");
    serde_json::from_slice(&std::fs::read(format!("{folder}/{name}.json")).unwrap()).unwrap()
}

#[test]
fn objects() {
    let wire = || OpenAi::new("chatcmpl-1", 1_767_323_045, "rag");
    let metadata = Metadata::default()
        .citations(vec![Citation::new("doc-1", "c-7", "Headers wait.", "bm25")])
        .mode("hybrid")
        .tools_used(["bm25"])
        .usage(Usage::default().input_tokens(3).output_tokens(4));
    let failure = Failure::new("chat_failed", "Please retry.");
    let failed = End::failed(failure.clone());
    let events = [
        (Search::new("bm25").query("why?").into(), None),
        (Thinking::new("Let me").id("1").into(), None),
        (Thinking::new(" see.").id("1").into(), None),
    ];
    for (name, object) in [
        (
            "completed",
            wire().completion(&events, "Yes [1].", &End::completed(metadata)),
        ),
        ("stopped", wire().completion(&[], "Ye", &End::stopped())),
        (
            "failed_text",
            wire().on_failure(OnFailure::Text).completion(&[], "Ye", &failed),
        ),
        ("error", wire().completion(&[], "Ye", &failed)),
        ("error", OpenAi::error(&failure)),
        ("models", OpenAi::models(&["rag", "rag-large"])),
    ] {
        // As text, so that the order of members counts.
        assert_eq!(object.to_string(), twin(name).to_string(), "{name}");
    }
}
