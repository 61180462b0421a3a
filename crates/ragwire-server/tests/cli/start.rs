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
    // The list of models is refused; the request of the graph's extractor follows.
    let held = |model: &TcpListener| {
        let (mut socket, _) = model.accept().unwrap();
        let _ = socket.read(&mut [0; 4096]).unwrap();
        socket
            .write_all(
                b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            )
            .unwrap();
        drop(socket);
        model.accept().unwrap()
    };
    let (docs, data) = (with_a_document(folder.path()), folder.path().join("data"));
    let mut child = program(&["--listen", "127.0.0.1:0", "--docs", &docs, "--data"])
        .arg(&data)
        .args(["--graph-model", "--llm-url", &url, "--llm-model", "m"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let address = address_of(&mut child);
    // Everything before the graph is done.
    let _held = held(&model);
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
    let _held = held(&model);
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

/// Returns what writes to nothing: a pipe whose reader has left.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn output_that_nothing_reads_ends_no_command() {
    let folder = tempfile::tempdir().unwrap();
    let (docs, data) = (with_a_document(folder.path()), folder.path().join("data"));
    let data = data.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["config", "check"],
        &["ingest", &docs, "--data", data],
        &["check", "--data", data],
        &["export", &format!("{data}/export"), "--data", data],
        &["import", &format!("{data}/export"), "--data", data],
        &["keys", "new", "--owner", "ada"],
    ];
    for arguments in commands {
        let status = program(arguments)
            .stdout(unread())
            .stderr(unread())
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
    let mut child = program(&["--listen", "127.0.0.1:0", "--data", data])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    drop(lines);
    let address = first.trim().strip_prefix("starting at http://").unwrap();
    let address = address.trim_end_matches('/');
    while !get(address, "/readyz").starts_with("HTTP/1.1 200 ") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A model server that answers every request with this JSON.
fn model_server(status: &'static str, json: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let mut request = BufReader::new(&socket).lines();
            while request
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let length = json.len();
            let _ = write!(
                &socket,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{json}"
            );
        }
    });
    url
}

#[test]
fn a_model_server_without_an_obvious_model_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let two = r#"{"data":[{"id":"llama3.2:latest"},{"id":"qwen3:8b"}]}"#;
    for (setting, url, message) in [
        (
            "--llm-url",
            model_server("200 OK", two),
            "--llm-url: the server has 2 models: llama3.2:latest, qwen3:8b; choose one with --llm-model",
        ),
        (
            "--llm-url",
            model_server("200 OK", r#"{"object":"list","data":null}"#),
            "--llm-url: the server has no model; load one, with Ollama for example `ollama pull qwen3:4b`",
        ),
        (
            "--llm-url",
            model_server("404 Not Found", "{}"),
            "--llm-url: the server does not list its models; name one with --llm-model",
        ),
        (
            "--llm-url",
            model_server("401 Unauthorized", r#"{"error":"bad key"}"#),
            "--llm-url: the server answered 401: bad key; set its key as RAGWIRE_LLM_KEY",
        ),
        (
            "--llm-url",
            closed.clone(),
            "start that server first, or correct the address. With --llm-model it may start later",
        ),
        (
            "--embedder-url",
            model_server("404 Not Found", "{}"),
            "--embedder-url: the server does not list its models; name one with --embedder-model",
        ),
        (
            "--reranker-url",
            model_server("404 Not Found", "{}"),
            "--reranker-url: the server answered 404: its message is not shown; check the address, and the model in \
             --reranker-model",
        ),
    ] {
        let arguments = [
            "--listen",
            "127.0.0.1:0",
            "--data",
            data.to_str().unwrap(),
            setting,
            &url,
        ];
        let (code, _, stderr) = run(&mut program(&arguments));
        assert_eq!(code, 1, "{message}: {stderr}");
        assert!(stderr.contains(message), "{message}: {stderr}");
    }
}

/// A model server whose routes are below `/v1`, as Ollama's.
fn versioned_model_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&socket).lines();
            let request = lines.next().unwrap().unwrap();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let (status, json) = match request.split(' ').nth(1) {
                Some("/v1/models") => ("200 OK", r#"{"object":"list","data":[{"id":"qwen3:4b"}]}"#),
                _ => ("404 Not Found", "404 page not found"),
            };
            let length = json.len();
            let _ = write!(
                &socket,
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{json}"
            );
        }
    });
    address
}

#[test]
fn a_model_server_needs_neither_scheme_nor_path_nor_name() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for scheme in ["", "http://"] {
        let url = format!("{scheme}{}", versioned_model_server());
        let mut child = program(&["--listen", "127.0.0.1:0", "--llm-url", &url, "--data"])
            .arg(&data)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let found = lines.find(|line| line.trim_start().starts_with("llm: "));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            found.is_some_and(|line| line.contains("llm: qwen3:4b, on the server of --llm-url")),
            "{url}"
        );
    }
}
