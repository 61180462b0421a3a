//! Runs the committed corpus through the fuzz targets.

use std::path::Path;

fn check(target: fn(&[u8]), name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 20, "{name} has only {} files", files.len());
    for file in files {
        println!("{}", file.display());
        target(&std::fs::read(file).unwrap());
    }
}

#[test]
fn framed_decode() {
    check(ragwire_fuzz::framed_decode, "framed_decode");
}

#[test]
fn framed_roundtrip() {
    check(ragwire_fuzz::framed_roundtrip, "framed_roundtrip");
}

#[test]
fn sse_decode() {
    check(ragwire_fuzz::sse_decode, "sse_decode");
}

#[test]
fn ndjson_decode() {
    check(ragwire_fuzz::ndjson_decode, "ndjson_decode");
}

#[test]
fn event_stream() {
    check(ragwire_fuzz::event_stream, "event_stream");
}

#[test]
fn langgraph_decode() {
    check(ragwire_fuzz::langgraph_decode, "langgraph_decode");
}

#[test]
fn forge_decode() {
    check(ragwire_fuzz::forge_decode, "forge_decode");
}

#[test]
fn session_chat_decode() {
    check(ragwire_fuzz::session_chat_decode, "session_chat_decode");
}

#[test]
fn eve_decode() {
    check(ragwire_fuzz::eve_decode, "eve_decode");
}

#[test]
fn trustgraph_decode() {
    check(ragwire_fuzz::trustgraph_decode, "trustgraph_decode");
}

#[test]
fn ai_sdk_decode() {
    check(ragwire_fuzz::ai_sdk_decode, "ai_sdk_decode");
}

#[test]
fn ag_ui_decode() {
    check(ragwire_fuzz::ag_ui_decode, "ag_ui_decode");
}

#[test]
fn openai_decode() {
    check(ragwire_fuzz::openai_decode, "openai_decode");
}

#[test]
fn responses_decode() {
    check(ragwire_fuzz::responses_decode, "responses_decode");
}

#[test]
fn ollama_decode() {
    check(ragwire_fuzz::ollama_decode, "ollama_decode");
}

#[test]
fn plain_decode() {
    check(ragwire_fuzz::plain_decode, "plain_decode");
}
