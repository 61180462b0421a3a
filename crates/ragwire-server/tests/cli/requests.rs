//! The ID of a request is in the log entries of everything that was done for it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::served::Served;

/// Asks a question under this request ID and returns the head of the response.
fn ask(server: &Served, id: &str, question: &str) -> String {
    let mut socket = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    let body = format!(r#"{{"prompt":"{question}"}}"#);
    let request = format!(
        "POST /v1/turns HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    reply.split("\r\n\r\n").next().unwrap().to_owned()
}

/// Returns the messages that the log has under this request ID.
fn messages(log: &[String], id: &str) -> Vec<String> {
    let entries = log
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_request = entries.filter(|entry| {
        let mut spans = entry["spans"].as_array().into_iter().flatten();
        spans.any(|span| span["name"] == "request" && span["id"] == id)
    });
    of_request
        .map(|entry| entry["message"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_id_of_a_request_is_in_the_log_of_its_turn() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start_with_log(&folder.path().join("data"), &["--log-format", "json"], "info");
    for (id, question, status, message) in [
        ("proxy-7.answered", "fault:no-events", "200", "turn finished"),
        ("proxy-7.rejected", "fault:reject", "500", "turn finished"),
    ] {
        let head = ask(&server, id, question);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains(&format!("x-request-id: {id}")), "{head}");
        let mut found = Vec::new();
        for _ in 0..500 {
            found = messages(&server.log(), id);
            if found.iter().any(|found| found == message) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(found.iter().any(|found| found == message), "{id}: {found:?}");
    }
}
