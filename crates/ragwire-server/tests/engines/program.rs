//! The program with models and a store: its output at startup, and how it ends.

#[path = "../served/command.rs"]
mod command;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use command::program;

use crate::models::{HANG, embedder, ranker, writer};

/// Runs a program to its end. Returns its status, and what it said after the address that it listens on.
fn ended(command: &mut Command) -> (Option<i32>, String) {
    command.env("RAGWIRE_LISTEN", "127.0.0.1:0");
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let lines = said.split_inclusive('\n');
    let rest = lines.filter(|line| !line.starts_with("starting at http://127.0.0.1:"));
    (output.status.code(), rest.collect())
}

/// Starts a server and reads its output up to its address and the lines of the welcome after it.
pub(crate) fn welcomed(data: &Path, more: &[&str]) -> (Running, Vec<String>, impl BufRead + use<>) {
    let mut command = program(&[
        "--listen",
        "127.0.0.1:0",
        "--data",
        data.to_str().unwrap(),
        "--llm-threads",
        "1",
    ]);
    let mut child = Running(command.args(more).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap());
    let mut said = Vec::new();
    while !said.last().is_some_and(|line: &String| line.contains("curl -N")) {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended: {said:#?}");
        said.push(line.trim().to_owned());
    }
    (child, said, lines)
}

/// A server with these arguments, and its address.
pub(crate) fn served(data: &Path, more: &[&str]) -> (Running, String, impl BufRead + use<>) {
    let (child, said, rest) = welcomed(data, more);
    let address = said.iter().find_map(|line| line.split_once("answers at http://"));
    let address = address.unwrap().1.trim_end_matches('/').to_owned();
    (child, address, rest)
}

/// A server process that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.0.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    /// Waits until it ends by itself. Returns `None` if a signal ended it.
    pub(crate) fn code(mut self) -> Option<i32> {
        for _ in 0..HANG.as_millis() / 20 {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_prints_what_runs_and_ends_at_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let mut more = vec![
        "--llm",
        writer().to_str().unwrap(),
        "--embedder",
        embedder().to_str().unwrap(),
    ];
    more.extend([
        "--reranker",
        ranker().to_str().unwrap(),
        "--llm-context",
        "2048",
        "--llm-slots",
        "3",
    ]);
    let store = if cfg!(feature = "qdrant-edge") {
        more.extend(["--store", "qdrant-edge"]);
        let place = std::path::absolute(folder.path().join("qdrant-edge")).unwrap();
        format!("store: qdrant-edge in {}", place.display())
    } else {
        crate::parts::MEMORY.to_owned()
    };
    // The second start finds the store of the first.
    for _ in 0..2 {
        let (child, said, mut rest) = welcomed(folder.path(), &more);
        let sessions = said
            .iter()
            .position(|line| line.starts_with("sessions: "))
            .unwrap();
        assert_eq!(
            said[sessions + 1..sessions + 6],
            [
                "llm: tiny, 3 answers at a time, 2048 tokens of context each",
                "embedder: tiny bert, 32 dimensions",
                "reranker: tiny bert",
                store.as_str(),
                "",
            ]
        );
        child.signal("TERM");
        let mut after = String::new();
        rest.read_to_string(&mut after).unwrap();
        assert_eq!(child.code(), Some(0), "{after}");
        assert!(
            !after.contains("ERROR") && !after.contains("did not end"),
            "{after}"
        );
    }
}

#[test]
fn a_mistake_is_reported_before_anything_is_indexed() {
    let folder = tempfile::tempdir().unwrap();
    let (data, docs) = (folder.path().join("data"), folder.path().join("docs"));
    std::fs::create_dir(&docs).unwrap();
    std::fs::write(docs.join("a.md"), "# A\n\nA fox.").unwrap();
    let nowhere = folder.path().join("nowhere.gguf");
    let arguments = |setting| {
        [
            "--data",
            data.to_str().unwrap(),
            "--docs",
            docs.to_str().unwrap(),
            setting,
            nowhere.to_str().unwrap(),
        ]
    };
    for setting in ["--llm", "--embedder", "--reranker"] {
        let words = format!(
            "error: {setting} {}: the file does not exist; name a GGUF file, or hf:owner/repo/file.gguf on the Hugging Face hub\n",
            nowhere.display()
        );
        assert_eq!(ended(&mut program(&arguments(setting))), (Some(1), words));
    }
    // From the hub, without a network and with an empty cache.
    let cache = folder.path().join("hub");
    let mut offline = program(&["--data", data.to_str().unwrap(), "--llm", "hf:owner/repo/m.gguf"]);
    offline.env("HF_HUB_OFFLINE", "1").env("HF_HUB_CACHE", &cache);
    let words = format!(
        "error: --llm: hf:owner/repo/m.gguf is not in {}, and HF_HUB_OFFLINE is set; unset it, or name the path of a file\n",
        cache.display()
    );
    assert_eq!(ended(&mut offline), (Some(1), words));
    let mut unreachable = program(&[
        "--data",
        data.to_str().unwrap(),
        "--embedder",
        "hf:owner/repo/m.gguf",
    ]);
    unreachable
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .env("HF_HUB_CACHE", &cache)
        .env_remove("HF_HUB_OFFLINE");
    let (code, said) = ended(&mut unreachable);
    let begin =
        "error: --embedder: hf:owner/repo/m.gguf cannot be downloaded from http://127.0.0.1:1/owner/repo (";
    assert!(code == Some(1) && said.starts_with(begin), "{code:?} {said}");
}

#[cfg(feature = "qdrant-edge")]
#[test]
fn ingest_fills_the_store_that_serve_answers_from() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("a.md"));
    std::fs::write(&file, "# Pump\n\nThe pump moves water.").unwrap();
    let more = [
        "--store",
        "qdrant-edge",
        "--embedder",
        embedder().to_str().unwrap(),
    ];
    let mut ingest = program(&["ingest", file.to_str().unwrap(), "--data", data.to_str().unwrap()]);
    let (code, said) = ended(ingest.args(more));
    assert_eq!(code, Some(0), "{said}");
    // Nothing is locked and nothing is lost, as after a killed server.
    for kill in ["KILL", "TERM"] {
        let (child, _, _rest) = welcomed(&data, &more);
        child.signal(kill);
        let _ = child.code();
    }
    // Without its embedder it is a different store.
    let (code, said) = ended(&mut program(&[
        "--data",
        data.to_str().unwrap(),
        "--store",
        "qdrant-edge",
    ]));
    assert_eq!(code, Some(1));
    assert!(
        said.starts_with("error: store qdrant-edge in ") && said.contains("embedder tiny bert"),
        "{said}"
    );
}
