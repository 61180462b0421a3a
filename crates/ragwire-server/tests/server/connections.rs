//! Connections: limits, stalled readers, shutdown, requests from other origins.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ragwire::event::Search;
use ragwire::orchestrator::Answering;
use ragwire::{FailureKind, Frame, Metadata, Sink, Status};
use ragwire::{Orchestrator, Question};
use ragwire_rag::Library;
use ragwire_server::serve::Shutdown;
use ragwire_server::settings::Settings;
use ragwire_server::settings::values::{Count, Span};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{JSON, Running, STREAM, WHOLE, decode, no_grace, start, start_with};

#[tokio::test]
async fn shutdown_completes_open_turns_and_refuses_new_ones() {
    let mut server = start(|_| {}).await;
    let body = server.open("fault:silent").await;
    let mut kept = TcpStream::connect(server.address()).await.unwrap();
    server.stop.take().unwrap().send(()).unwrap();
    let rest = body.collect().await.unwrap().to_bytes();
    let Some(Frame::End(end)) = decode(&rest).pop() else {
        panic!("no end: {rest:?}")
    };
    assert!(matches!(end.status, Status::Failed(failure) if failure.kind == FailureKind::ShuttingDown));
    assert!(server.said("s1").await[1].1.contains("restarting"));

    // An open connection gets an answer or is closed; it never hangs.
    let request = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let _ = kept.write_all(request.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), kept.read_to_end(&mut answer))
        .await
        .unwrap();
    assert!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 503"),
        "{answer:?}"
    );
    assert_eq!(
        server.tasks.join_next().await.unwrap().unwrap(),
        Shutdown::Drained
    );
}

/// Endless text, as fast as a reader accepts it. Unread text is buffered up to a limit, so a
/// producer that does not wait would outrun any reader.
#[derive(Debug)]
struct Flood;

impl Orchestrator for Flood {
    fn answer(&self, _question: Question, sink: Sink) -> Answering {
        Box::pin(async move {
            sink.send(Search::new("flood")).await?;
            loop {
                sink.send("x".repeat(8000)).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            #[expect(unreachable_code, reason = "it names the type")]
            Ok(Metadata::default())
        })
    }
}

async fn flooded(change: impl FnOnce(&mut Settings)) -> (Running, TcpStream) {
    let library = Arc::new(Library::in_memory(Default::default()).unwrap());
    let server = start_with(library, Some(Arc::new(Flood)), change);
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let body = r#"{"prompt":"flood"}"#;
    let request = format!(
        "POST {STREAM} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 12];
    socket.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    // After several megabytes the buffers between the two are full.
    tokio::time::sleep(Duration::from_millis(500)).await;
    (server, socket)
}

#[tokio::test]
async fn a_stalled_reader_is_disconnected() {
    let (server, mut socket) = flooded(|settings| {
        settings.write_timeout = Span(Duration::from_millis(300));
        no_grace(settings);
    })
    .await;
    server.until_idle().await;
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), socket.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "the connection is closed");
    assert!(!rest.contains(&0x1e), "what was cut does not look complete");
}

#[tokio::test]
async fn a_stalled_reader_does_not_delay_shutdown() {
    let (server, _socket) = flooded(|settings| settings.drain = Span(Duration::from_millis(500))).await;
    let started = Instant::now();
    assert_eq!(server.stop().await, Shutdown::Cut(1));
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn the_second_signal_ends_the_server_at_once() {
    let (mut server, _socket) = flooded(|_| {}).await;
    server.stop.take().unwrap().send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let started = Instant::now();
    server.kill.take().unwrap().send(()).unwrap();
    assert_eq!(server.tasks.join_next().await.unwrap().unwrap(), Shutdown::Cut(1));
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn connections_are_limited_and_silent_ones_are_closed() {
    let server = start(|settings| {
        settings.max_connections = Count(1);
        settings.header_timeout = Span(Duration::from_millis(300));
    })
    .await;
    let whole = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let openings = [&b""[..], b"P", b"GET / HTTP/1.1\r\nhost:", whole.as_bytes()];
    for opening in openings {
        let mut silent = TcpStream::connect(server.address()).await.unwrap();
        silent.write_all(opening).await.unwrap();
        // The silent connection has the only place; this one waits and is then served.
        let healthy = tokio::time::timeout(Duration::from_secs(5), server.get("/healthz")).await;
        assert_eq!(healthy.unwrap().status, 200);
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), silent.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{opening:?}");
    }
}

#[tokio::test]
async fn requests_from_other_origins_are_refused() {
    let server = start(|settings| {
        settings.allow_host = vec!["docs.example.org".into()];
        settings.allow_origin = vec!["https://app.example.org".into()];
    })
    .await;
    let own = server.address().to_owned();
    let own_origin = format!("http://{own}");
    let port = own.rsplit(':').next().unwrap();
    let localhost = format!("localhost:{port}");
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[], 200),
        (&[("host", &own)], 200),
        (&[("host", &localhost)], 200),
        (&[("host", "docs.example.org")], 200),
        (&[("host", "evil.example")], 421),
        (&[("host", "127.0.0.1.evil.example")], 421),
        (&[("host", "a@127.0.0.1")], 400),
        (&[("host", "")], 400),
        (&[("origin", &own_origin)], 200),
        (&[("origin", "https://app.example.org")], 200),
        (&[("origin", "https://evil.example")], 403),
        (&[("origin", "null")], 403),
    ];
    for (headers, status) in cases {
        let mut headers = headers.to_vec();
        headers.push(JSON);
        let reply = server
            .call(Method::POST, WHOLE, &headers, r#"{"prompt":"commit?"}"#)
            .await;
        assert_eq!(reply.status.as_u16(), *status, "{headers:?} {:?}", reply.body);
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    }
    let allowed = [("origin", "https://app.example.org"), JSON];
    let reply = server
        .call(Method::POST, WHOLE, &allowed, r#"{"prompt":"commit?"}"#)
        .await;
    assert_eq!(
        reply.headers["access-control-allow-origin"],
        "https://app.example.org"
    );
    let foreign = [("origin", "https://evil.example")];
    let reply = server.call(Method::GET, "/v1/documents", &foreign, "").await;
    assert!(!reply.headers.contains_key("access-control-allow-origin"));

    // The preflight of a browser before OpenAI's SDK may send its own headers.
    for (origin, headers) in [
        (
            "https://app.example.org",
            Some("authorization,content-type,x-stainless-os"),
        ),
        ("https://evil.example", None),
    ] {
        let preflight = [
            ("origin", origin),
            ("access-control-request-method", "POST"),
            (
                "access-control-request-headers",
                "authorization,content-type,x-stainless-os",
            ),
        ];
        let reply = server
            .call(Method::OPTIONS, "/v1/chat/completions", &preflight, "")
            .await;
        let told = |name| reply.headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(told("access-control-allow-origin"), headers.map(|_| origin));
        if headers.is_some() {
            assert_eq!(told("access-control-allow-headers"), headers);
        }
    }
}

#[tokio::test]
async fn the_page_is_served_with_its_policy() {
    let server = start(|_| {}).await;
    for (path, media_type, holds) in [
        ("/", "text/html", "id=\"prompt\""),
        ("/page.js", "text/javascript", "askQuestion"),
        ("/page.css", "text/css", ".answer"),
        ("/page/turn.js", "text/javascript", "decodeStream"),
        ("/page/theme.js", "text/javascript", "localStorage"),
        ("/client/errors.js", "text/javascript", "class RequestError"),
        ("/client/framed.js", "text/javascript", "class FramedDecoder"),
        ("/client/indexed.js", "text/javascript", "class IndexedDecoder"),
        ("/client/ndjson.js", "text/javascript", "class NdjsonDecoder"),
        ("/client/stream.js", "text/javascript", "decodeFramed"),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with(media_type)
        );
        let policy = reply.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'self'"));
        assert!(
            std::str::from_utf8(&reply.body).unwrap().contains(holds),
            "{path}"
        );
    }
}

#[tokio::test]
async fn http_2_without_tls_works_too() {
    let server = start(|_| {}).await;
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let request = Request::post(format!("{}{STREAM}", server.base))
        .header(JSON.0, JSON.1)
        .body(Full::from(r#"{"prompt":"commit?"}"#))
        .unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(matches!(decode(&body).last(), Some(Frame::End(_))));
}

/// Returns the address of this host on its network; `None` if it has no network. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

/// Returns whether the server answers on a new connection, which stays open then.
async fn connects(address: SocketAddr) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /livez HTTP/1.1\r\nhost: {address}\r\n\r\n");
    // A socket that was closed at once may fail to write.
    let _ = socket.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    let read = socket.read_exact(&mut answer).await;
    (read.is_ok() && &answer == b"HTTP/1.1 200").then_some(socket)
}

#[tokio::test]
async fn one_address_has_its_share_of_the_connections() {
    // Only a host with a network has an address that is not loopback, which is exempt.
    let Some(own) = own_address() else { return };
    let server = start(|settings| {
        settings.listen.0 = "0.0.0.0:0".parse().unwrap();
        settings.max_connections = Count(8);
        settings.client_share = "50".parse().unwrap();
    })
    .await;
    let port = server.address().rsplit(':').next().unwrap().parse().unwrap();
    let address = SocketAddr::new(own, port);
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(connects(address).await.expect("within the share"));
    }
    assert!(connects(address).await.is_none(), "beyond the share");
    let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    assert!(connects(loopback).await.is_some(), "another client");
    drop(open.pop());
    // The server notices it in its own time.
    while connects(address).await.is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Sends the beginning of a connection in these pieces, and returns the first bytes of the answer.
async fn answered(server: &Running, pieces: &[&[u8]]) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for piece in pieces {
        socket.write_all(piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut answer = vec![0; 12];
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_exact(&mut answer));
    read.await.expect("it hangs").unwrap();
    answer
}

#[tokio::test]
async fn the_version_is_recognised_however_the_first_bytes_arrive() {
    let server = start(|_| {}).await;
    let get = format!("GET /livez HTTP/1.1\r\nhost: {}\r\n\r\n", server.address());
    let post = format!(
        "POST /v1/turns HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n",
        server.address()
    );
    let (get, post) = (get.as_bytes(), post.as_bytes());
    // Each byte alone; `P` could be the beginning of both versions.
    let bytes: Vec<&[u8]> = get.chunks(1).collect();
    for (pieces, expected) in [
        (vec![get], &b"HTTP/1.1 200"[..]),
        (bytes, b"HTTP/1.1 200"),
        (vec![&post[..1], &post[1..]], b"HTTP/1.1 415"),
    ] {
        assert_eq!(answered(&server, &pieces).await, expected);
    }
    // The preface and empty settings are answered with settings: type 4, stream 0.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for at in [1, 3, 14, 24, preface.len()] {
        let (first, rest) = preface.split_at(at);
        let answer = answered(&server, &[first, rest]).await;
        assert_eq!((answer[3], &answer[5..9]), (4, &[0; 4][..]), "{at}: {answer:?}");
    }
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed_in_time() {
    let server = start(|settings| settings.header_timeout = Span(Duration::from_millis(300))).await;
    for first in [&b""[..], b"P", b"G", b"GET /livez HTTP/1.1\r\n"] {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(first).await.unwrap();
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_end(&mut answer));
        read.await.expect("it stays open").unwrap();
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{answer:?}"
        );
    }
}
