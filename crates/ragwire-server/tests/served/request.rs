//! Requests over a plain socket.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Sends a document, or JSON if the body begins with a brace, and reads until the server closes the
/// connection. Returns the status of the response, 0 if there was none, and its body.
pub(crate) fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let address = address.trim_start_matches("http://");
    let kind = if body.starts_with('{') {
        "application/json"
    } else {
        "text/markdown"
    };
    // HTTP/1.0 has no chunks: the body ends with the connection.
    let request = format!(
        "{method} {path} HTTP/1.0\r\nhost: {address}\r\ncontent-type: {kind}\r\naccept: application/x-ndjson\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut answer = Vec::new();
    if let Ok(mut socket) = TcpStream::connect(address)
        && socket.write_all(request.as_bytes()).is_ok()
    {
        let _ = socket.read_to_end(&mut answer);
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status.unwrap_or(0), body.unwrap_or_default())
}
