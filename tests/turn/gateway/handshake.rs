//! Requests that do not become a WebSocket.

use ragwire::http::gateway::GatewayLimits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const UPGRADE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n";
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";

/// Sends a request with these headers; returns the head and the body of the response.
async fn answer(address: SocketAddr, method: &str, headers: &str) -> (String, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} /api/v1/socket HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut received = Vec::new();
    loop {
        let read = soon(socket.read_buf(&mut received)).await.unwrap();
        let text = String::from_utf8_lossy(&received).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.parse().unwrap());
            if body.len() >= length || read == 0 {
                return (head.to_owned(), body.to_owned());
            }
        }
        assert_ne!(read, 0, "{text}");
    }
}

fn refusal(code: &str, message: &str, recoverable: bool) -> String {
    format!(r#"{{"error":{{"code":"{code}","message":"{message}","recoverable":{recoverable},"request_id":"#)
}

const WEBSOCKET_ONLY: &str = "This route speaks WebSocket (version 13, over HTTP/1.1) only.";

#[tokio::test]
async fn only_a_handshake_becomes_a_socket() {
    for server in [Server::Hyper, Server::Axum] {
        let gateway = Stage::default()
            .gateway()
            .allow_origin("https://friend.example")
            .build();
        let address = server.serve(&gateway).await;
        let all = format!("{UPGRADE}{KEY}{VERSION}");
        let own = format!("{all}Origin: http://{address}\r\n");
        for (method, headers, status, body) in [
            (
                "GET",
                String::new(),
                426,
                refusal("websocket_required", WEBSOCKET_ONLY, false),
            ),
            (
                "GET",
                format!("{UPGRADE}{KEY}"),
                426,
                refusal("websocket_required", WEBSOCKET_ONLY, false),
            ),
            (
                "GET",
                format!("{UPGRADE}{KEY}Sec-WebSocket-Version: 12\r\n"),
                426,
                refusal("websocket_required", WEBSOCKET_ONLY, false),
            ),
            (
                "GET",
                format!("{UPGRADE}{VERSION}"),
                400,
                refusal("websocket_required", WEBSOCKET_ONLY, false),
            ),
            (
                "GET",
                format!("{UPGRADE}{VERSION}Sec-WebSocket-Key: short\r\n"),
                400,
                refusal("websocket_required", WEBSOCKET_ONLY, false),
            ),
            (
                "POST",
                all.clone(),
                405,
                refusal("websocket_required", WEBSOCKET_ONLY, false),
            ),
            (
                "GET",
                format!("{all}Origin: https://evil.example\r\n"),
                403,
                refusal(
                    "foreign_origin",
                    "Pages of another origin may not open this socket.",
                    false,
                ),
            ),
            (
                "GET",
                format!("{all}Origin: null\r\n"),
                403,
                refusal(
                    "foreign_origin",
                    "Pages of another origin may not open this socket.",
                    false,
                ),
            ),
            (
                "GET",
                format!("{own}Origin: https://evil.example\r\n"),
                403,
                refusal(
                    "foreign_origin",
                    "Pages of another origin may not open this socket.",
                    false,
                ),
            ),
            ("GET", all.clone(), 101, String::new()),
            ("GET", own, 101, String::new()),
            (
                "GET",
                format!("{all}Origin: https://friend.example\r\n"),
                101,
                String::new(),
            ),
            (
                "GET",
                format!(
                    "{all}Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: odd\r\n"
                ),
                101,
                String::new(),
            ),
        ] {
            let (head, content) = answer(address, method, &headers).await;
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")),
                "{server:?} {headers}: {head}"
            );
            assert_eq!(content.get(..body.len()), Some(&*body), "{server:?} {headers}");
            let has_line = |name: &str| head.lines().any(|line| line == name);
            match status {
                101 => {
                    assert!(
                        has_line("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
                        "{head}"
                    );
                    assert!(
                        !head.contains("sec-websocket-extensions")
                            && !head.contains("sec-websocket-protocol")
                    );
                }
                426 => assert!(
                    has_line("sec-websocket-version: 13") && has_line("upgrade: websocket"),
                    "{head}"
                ),
                405 => assert!(has_line("allow: GET"), "{head}"),
                _ => assert!(has_line("content-type: application/json"), "{head}"),
            }
        }
    }
}

#[tokio::test]
async fn any_origin_is_accepted_if_it_is_configured() {
    let gateway = Stage::default().gateway().allow_any_origin().build();
    let address = Server::Hyper.serve(&gateway).await;
    let headers = format!("{UPGRADE}{KEY}{VERSION}Origin: https://evil.example\r\n");
    let (head, _) = answer(address, "GET", &headers).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}

#[tokio::test]
async fn the_number_of_sockets_is_bounded() {
    let limits = GatewayLimits::default().max_sockets(1);
    let gateway = Stage::default().gateway().limits(limits).build();
    let address = Server::Axum.serve(&gateway).await;
    let mut first = Client::shake(TcpStream::connect(address).await.unwrap()).await;
    assert_eq!(gateway.active(), 1);
    let headers = format!("{UPGRADE}{KEY}{VERSION}");
    let (head, body) = answer(address, "GET", &headers).await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(head.lines().any(|line| line == "retry-after: 5"), "{head}");
    let busy = refusal(
        "busy",
        "Too many sockets are open. Please retry in a moment.",
        true,
    );
    assert_eq!(body.get(..busy.len()), Some(&*busy));
    first.0.close(None).await.unwrap();
    while soon(first.0.next()).await.is_some() {}
    soon(gateway.drained()).await;
    let (head, _) = answer(address, "GET", &headers).await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}
