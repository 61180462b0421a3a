//! API keys as an operator uses them: made, given to a server, and changed while it runs.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::run;
use crate::served::{Served, program};

/// Makes a key and returns its line and the key.
fn new_key(arguments: &[&str]) -> (String, String) {
    let (status, line, shown) = run(program(&["keys", "new"]).args(arguments));
    assert_eq!(status, 0, "{shown}");
    let key = shown.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(key.starts_with("rw_") && key.len() == 67, "{shown}");
    assert!(!line.contains(&key));
    (line, key)
}

/// Returns the status of a request for the sessions.
fn status(server: &Served, key: &str) -> u16 {
    let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    let request = format!(
        "GET /v1/sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    reply.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn keys_change_while_the_server_runs_and_are_not_in_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.txt");
    let (line, first) = new_key(&["--owner", "alice", "--rate", "1000"]);
    assert!(
        line.ends_with(" owner=alice scopes=ask,read rate=1000\n"),
        "{line}"
    );
    fs::write(&file, &line).unwrap();
    let more = ["--api-keys", file.to_str().unwrap(), "--log-format", "json"];
    let server = Served::start(&folder.path().join("data"), &more);
    assert_eq!(status(&server, &first), 200);

    let (line, second) = new_key(&["--owner", "alice", "--scope", "read"]);
    assert_eq!(status(&server, &second), 401);
    fs::write(&file, &line).unwrap();
    server.signal("HUP");
    while status(&server, &second) != 200 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status(&server, &first), 401);
    // A mistake changes nothing.
    fs::write(&file, "nonsense\n").unwrap();
    server.signal("HUP");
    while !server.log().iter().any(|line| line.contains("line 1: ")) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(status(&server, &second), 200);

    let log = server.log();
    assert!(
        !log.iter()
            .any(|line| line.contains(&first) || line.contains(&second))
    );
    let mistake = log.iter().find(|line| line.contains("line 1: ")).unwrap();
    let mistake: serde_json::Value = serde_json::from_str(mistake).unwrap();
    assert_eq!(
        (&mistake["level"], &mistake["message"]),
        (&"ERROR".into(), &"the API keys stay as they were".into())
    );
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.txt");
    let start = || {
        let data = folder.path().join("data");
        run(program(&[
            "--listen",
            "127.0.0.1:0",
            "--data",
            data.to_str().unwrap(),
            "--api-keys",
        ])
        .arg(&file))
    };
    let (status, _, said) = start();
    assert!(status == 1 && said.contains("keys new --owner"), "{said}");
    fs::write(&file, "\nrw_123\n").unwrap();
    let (status, _, said) = start();
    assert!(
        status == 1 && said.contains("line 2: a line starts with `sha256:`"),
        "{said}"
    );
    assert!(!said.contains("rw_123"), "{said}");
    let (status, _, said) = run(&mut program(&["keys", "new", "--owner", "a b"]));
    assert!(status == 2 && said.contains("without white space"), "{said}");
}
