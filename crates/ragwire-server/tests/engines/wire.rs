//! The stream of a server with models, and an answer that is being written when the server shuts
//! down.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;

use ragwire_test_support::tiny_llama::CHATML;
use serde_json::{Value, json};

use crate::models::{HANG, embedder, ranker, written};
use crate::program::served;

/// Asks and returns the lines of the response.
fn ask(address: &str, prompt: &str) -> Lines<BufReader<TcpStream>> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(HANG)).unwrap();
    let body = json!({ "prompt": prompt }).to_string();
    // HTTP/1.0 has no chunks: the body ends with the connection.
    let request = format!(
        "POST /v1/turns HTTP/1.0\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/x-ndjson\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut lines = BufReader::new(socket).lines();
    let status = lines.next().unwrap().unwrap();
    assert!(status.ends_with("200 OK"), "{status}");
    while !lines.next().unwrap().unwrap().is_empty() {}
    lines
}

/// The frame of a line; an empty line is a keep-alive.
fn frame(line: std::io::Result<String>) -> Option<Value> {
    let line = line.unwrap();
    (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
}

/// A model with room for all evidence whose tokens are letters and take some milliseconds each.
fn slow_writer() -> std::path::PathBuf {
    written("slow.gguf", |model| {
        model.template = Some(CHATML.to_owned());
        (model.context, model.layers, model.width, model.inner) = (32_768, 6, 264, 528);
    })
}

#[test]
fn an_answer_is_written_by_the_model_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let llm = written("roomy.gguf", |model| {
        model.template = Some(CHATML.to_owned());
        model.context = 32_768;
    });
    let llm = [
        "--llm",
        llm.to_str().unwrap(),
        "--llm-slots",
        "2",
        "--llm-context",
        "32768",
    ];
    let mut more = llm.to_vec();
    more.extend([
        "--embedder",
        embedder().to_str().unwrap(),
        "--reranker",
        ranker().to_str().unwrap(),
    ]);
    if cfg!(feature = "qdrant-edge") {
        more.extend(["--store", "qdrant-edge"]);
    }
    let (child, address, _rest) = served(folder.path(), &more);
    let frames: Vec<Value> = ask(&address, "What happens when a turn fails after the commit?")
        .filter_map(frame)
        .collect();
    let model: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame["event"] == "generation_start")
        .map(|frame| &frame["model"])
        .collect();
    assert_eq!(model, ["tiny"], "{frames:#?}");
    let end = frames.last().unwrap();
    assert_eq!(end["end"], "completed", "{end:#}");
    assert!(
        frames.iter().any(|frame| frame["text"].is_string()),
        "{frames:#?}"
    );
    child.signal("TERM");
    assert_eq!(child.code(), Some(0));
}

#[test]
fn a_signal_ends_an_answer_that_a_model_writes_and_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let llm = slow_writer();
    let (child, address, mut rest) = served(
        folder.path(),
        &["--llm", llm.to_str().unwrap(), "--llm-slots", "2"],
    );
    let mut lines = ask(&address, "What happens when a turn fails after the commit?").filter_map(frame);
    let begun = lines.by_ref().find(|frame| frame["event"] == "generation_start");
    assert_eq!(begun.unwrap()["model"], "tiny");
    child.signal("TERM");
    let end = lines.last().unwrap();
    assert_eq!(
        (&end["end"], &end["error"]["code"]),
        (&json!("failed"), &json!("shutting_down")),
        "{end:#}"
    );
    assert_eq!(child.code(), Some(0));
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert!(!said.contains("ERROR") && !said.contains("did not end"), "{said}");
}
