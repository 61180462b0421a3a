//! The HTTP client on scripted sockets: where responses may be cut, how bodies end, and when a
//! connection is used again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use ragwire_rag::models::upstream::{HttpClient, UpstreamError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::upstream::within;

/// Reads the head of a request and returns the length of its body; `None` if the client closes.
async fn read_head(socket: &mut TcpStream) -> Option<usize> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    Some(length.map_or(0, |length| length.parse().unwrap()))
}

/// Reads `length` bytes of a request's body.
async fn read_body(socket: &mut TcpStream, length: usize) {
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.unwrap();
}

/// A server that writes `response` to every request, in two pieces, and closes if `closes`. Returns its
/// address and the number of connections so far.
async fn server(response: &'static str, cut: usize, closes: bool) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            socket.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                while let Some(length) = read_head(&mut socket).await {
                    read_body(&mut socket, length).await;
                    let (first, second) = response.as_bytes().split_at(cut);
                    for piece in [first, second] {
                        if socket.write_all(piece).await.is_err() {
                            return;
                        }
                        for _ in 0..3 {
                            tokio::task::yield_now().await;
                        }
                    }
                    if closes {
                        return;
                    }
                }
            });
        }
    });
    (address, connections)
}

fn client() -> HttpClient {
    HttpClient::new(Duration::from_secs(5), None).unwrap()
}

fn post(address: SocketAddr, body: Bytes) -> Request<Bytes> {
    let request = Request::post(format!("http://{address}/ask"));
    request.body(body).unwrap()
}

/// Asks once and returns the status and the body.
async fn ask(client: &HttpClient, address: SocketAddr) -> Result<(StatusCode, String), UpstreamError> {
    let (head, mut body) = client
        .send(post(address, Bytes::from_static(b"?")))
        .await?
        .into_parts();
    let mut text = Vec::new();
    while let Some(data) = body.data().await? {
        assert!(!data.is_empty());
        text.extend_from_slice(&data);
    }
    assert!(matches!(body.data().await, Ok(None)), "the end is returned again");
    Ok((head.status, String::from_utf8(text).unwrap()))
}

#[tokio::test]
async fn a_response_is_the_same_wherever_it_is_cut() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for (name, response, status, text, closes, is_reused) in [
        (
            "chunks",
            format!("{chunked}1\r\na\r\n2;x=y\r\nbc\r\n0\r\nt: v\r\n\r\n"),
            200,
            "abc",
            false,
            true,
        ),
        (
            "a length",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc".into(),
            200,
            "abc",
            false,
            true,
        ),
        (
            "no body",
            "HTTP/1.1 204 No Content\r\n\r\n".into(),
            204,
            "",
            false,
            true,
        ),
        (
            "a redirection, which is not followed",
            "HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 1\r\n\r\na".into(),
            302,
            "a",
            false,
            true,
        ),
        (
            "interim responses",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na".into(),
            200,
            "a",
            false,
            true,
        ),
        (
            "the end of the connection",
            "HTTP/1.1 200 OK\r\n\r\nabc".into(),
            200,
            "abc",
            true,
            false,
        ),
        (
            "an older version",
            "HTTP/1.0 200 OK\r\ncontent-length: 3\r\n\r\nabc".into(),
            200,
            "abc",
            true,
            false,
        ),
        (
            "the last response",
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc".into(),
            200,
            "abc",
            true,
            false,
        ),
        (
            "more than the body",
            format!("{chunked}3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n"),
            200,
            "abc",
            false,
            false,
        ),
    ] {
        let response: &'static str = response.leak();
        within(async {
            for cut in 1..response.len() {
                let (address, connections) = server(response, cut, closes).await;
                let client = client();
                // What follows the body may arrive when the connection is used again.
                let times = if name == "more than the body" { 1 } else { 2 };
                for asked in 1..=times {
                    let answer = ask(&client, address).await.unwrap();
                    assert_eq!((answer.0.as_u16(), &*answer.1), (status, text), "{name}, {cut}");
                    let opened = connections.load(Ordering::Relaxed);
                    assert_eq!(opened, if is_reused { 1 } else { asked }, "{name}, {cut}");
                }
            }
        })
        .await;
    }
}

#[tokio::test]
async fn every_cut_response_is_broken() {
    for response in [
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
    ] {
        within(async {
            for length in 1..response.len() {
                let (address, _) = server(&response[..length], 1.min(length - 1), true).await;
                let error = ask(&client(), address).await.unwrap_err();
                assert_eq!(error.code(), "upstream_broken", "{length}");
            }
        })
        .await;
    }
}

#[tokio::test]
async fn chunks_that_arrived_together_are_one_piece() {
    let chunks = "1\r\nx\r\n".repeat(400);
    let response = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    let response: &'static str = response.leak();
    within(async {
        let (address, _) = server(response, 0, false).await;
        let mut body = client()
            .send(post(address, Bytes::new()))
            .await
            .unwrap()
            .into_body();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(body.data().await.unwrap().unwrap(), "x".repeat(400));
        assert!(body.data().await.unwrap().is_none());
    })
    .await;
}

/// A server that begins its response before it reads the rest of a long request.
#[tokio::test]
async fn a_request_is_sent_while_its_response_is_read() {
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let length = 32 * 1024 * 1024;
        let serving = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            assert_eq!(read_head(&mut socket).await, Some(length));
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na";
            socket.write_all(head).await.unwrap();
            read_body(&mut socket, length).await;
            socket.write_all(b"b").await.unwrap();
            // The connection is used again.
            assert_eq!(read_head(&mut socket).await, Some(0));
            socket
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .await
                .unwrap();
        });
        let client = client();
        let request = post(address, vec![b'x'; length].into());
        let mut body = client.send(request).await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "a");
        assert_eq!(body.data().await.unwrap().unwrap(), "b");
        assert!(body.data().await.unwrap().is_none());
        let second = client.send(post(address, Bytes::new())).await.unwrap();
        assert_eq!(second.status(), StatusCode::NO_CONTENT);
        serving.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_refusal_before_the_request_was_read_arrives() {
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_head(&mut socket).await.unwrap();
            let response =
                b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            socket.write_all(response).await.unwrap();
            // Without reading the rest, until the client has closed.
            tokio::time::sleep(Duration::from_secs(30)).await;
        });
        let request = post(address, vec![b'x'; 32 * 1024 * 1024].into());
        let response = client().send(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    })
    .await;
}

#[tokio::test]
async fn a_chunk_whose_size_never_ends_is_an_error() {
    within(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_head(&mut socket).await.unwrap();
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;";
            socket.write_all(head).await.unwrap();
            while socket.write_all(&[b'x'; 1024]).await.is_ok() {}
        });
        let error = ask(&client(), address).await.unwrap_err();
        assert_eq!(error.code(), "upstream_broken");
    })
    .await;
}
