//! What the program does before all documents are read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use super::{program, run};

fn with_a_document(folder: &Path) -> String {
    let docs = folder.join("docs");
    std::fs::create_dir_all(&docs).unwrap();
    let text = "# Turns\n\nA turn uses a bounded queue. The bounded queue holds frames.";
    std::fs::write(docs.join("turns.md"), text).unwrap();
    docs.to_str().unwrap().to_owned()
}

/// The address that a starting server prints first.
fn address_of(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    let address = first.strip_prefix("starting at http://").unwrap();
    address.trim_end_matches('/').to_owned()
}

/// The head and the body of a response.
fn get(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn an_address_in_use_is_reported_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (docs, data) = (with_a_document(folder.path()), folder.path().join("data"));
    let address = taken.local_addr().unwrap().to_string();
    let arguments = [
        "--listen",
        &address,
        "--docs",
        &docs,
        "--data",
        data.to_str().unwrap(),
    ];
    let (code, _, stderr) = run(&mut program(&arguments));
    assert_eq!(code, 1, "{stderr}");
    assert!(
        stderr.starts_with(&format!("error: cannot listen on {address}: ")),
        "{stderr}"
    );
    assert!(!data.exists(), "nothing was begun");
}

/// The model that extracts the graph never answers, so the start does not finish.
#[test]
fn a_starting_server_reports_what_it_does_and_stops_when_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let model = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", model.local_addr().unwrap());
    let (docs, data) = (with_a_document(folder.path()), folder.path().join("data"));
    let mut child = program(&["--listen", "127.0.0.1:0", "--docs", &docs, "--data"])
        .arg(&data)
        .args(["--graph-model", "--llm-url", &url, "--llm-model", "m"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let address = address_of(&mut child);
    // The request of the graph's extractor: everything before it is done.
    let (_held, _) = model.accept().unwrap();
    let ready = get(&address, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(
        ready.ends_with(r#"{"status":"starting","stage":"graph","message":"Adding documents to the graph"}"#),
        "{ready}"
    );
    assert!(get(&address, "/livez").starts_with("HTTP/1.1 200 "));
    assert!(get(&address, "/").starts_with("HTTP/1.1 200 "), "the page");
    let documents = get(&address, "/v1/documents");
    assert!(documents.starts_with("HTTP/1.1 503 "), "{documents}");
    assert!(documents.contains("retry-after: 5\r\n"), "{documents}");
    assert!(documents.contains(r#""code":"starting""#), "{documents}");
    let (code, _, stderr) = run(&mut program(&["health", "--server", &address]));
    assert_eq!(
        (code, &*stderr),
        (
            1,
            "error: Adding documents to the graph (503 Service Unavailable, starting)\n"
        )
    );
    let id = child.id().to_string();
    let (code, ..) = run(std::process::Command::new("kill").args(["-s", "TERM", &id]));
    assert_eq!(code, 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));

    // The document is there, so the next start answers from it while the graph is still missing.
    let mut child = program(&["--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .args(["--graph-model", "--llm-url", &url, "--llm-model", "m"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let address = address_of(&mut child);
    let (_held, _) = model.accept().unwrap();
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 503 "));
    let documents = get(&address, "/v1/documents");
    assert!(documents.starts_with("HTTP/1.1 200 "), "{documents}");
    assert!(documents.contains("turns.md"), "{documents}");
    let (code, stdout, _) = run(&mut program(&["health", "--server", &address]));
    assert_eq!(code, 0);
    assert!(stdout.ends_with("; Adding documents to the graph\n"), "{stdout}");
    child.kill().unwrap();
    child.wait().unwrap();
}
