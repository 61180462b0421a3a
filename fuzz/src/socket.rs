//! The WebSocket: any bytes after the handshake.

use std::convert::Infallible;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire::http::gateway::{Call, Gateway, ServiceKind};
use ragwire::{Metadata, SendError, Sink, Turn};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const HANDSHAKE: &[u8] =
    b"GET /api/v1/socket HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
/// Longer than all time-outs of a socket together, on a clock that does not wait.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// What fits between the two ends. Less than an answer, so that the socket also waits for its reader.
const PIPE_BYTES: usize = 256;

/// Sends the bytes on an open socket and reads to its end.
///
/// The first byte is the size of the pieces that are sent, the rest is what is sent.
///
/// # Panics
///
/// If the server does not close the socket, or writes a frame that is not one.
pub fn socket(data: &[u8]) {
    let Some((size, sent)) = data.split_first() else {
        return;
    };
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime needs no system resources that can be missing here");
    let received = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, exchange(usize::from(*size).max(1), sent.to_vec())).await
    });
    check(&received.expect("the socket stays open for a day"));
}

async fn exchange(size: usize, sent: Vec<u8>) -> Vec<u8> {
    let (client, server) = duplex(PIPE_BYTES);
    let answer = |_: Call| {
        Box::pin(async {
            Turn::start(async |sink: Sink| {
                sink.send("Forty-two.").await?;
                Ok::<_, SendError>(Metadata::default())
            })
            .commit()
            .await
        })
    };
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, answer)
        .service("document-rag", ServiceKind::DocumentRag, answer)
        .build();
    let service = service_fn(move |mut request: http::Request<Incoming>| {
        let response = gateway.upgrade(&mut request);
        async move { Ok::<_, Infallible>(response) }
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let http = hyper::server::conn::http1::Builder::new();
        let _ = http
            .serve_connection(TokioIo::new(server), service)
            .with_upgrades()
            .await;
    });
    let (mut reader, mut writer) = tokio::io::split(client);
    tasks.spawn(async move {
        let pieces = std::iter::once(HANDSHAKE).chain(sent.chunks(size));
        for piece in pieces {
            if writer.write_all(piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
        let _ = writer.shutdown().await;
    });
    let mut received = Vec::new();
    let _ = reader.read_to_end(&mut received).await;
    received
}

/// Checks everything that the server wrote: a 101, then whole frames of RFC 6455 without a mask, whose
/// texts are JSON, and nothing after a close frame.
fn check(received: &[u8]) {
    let head = received.windows(4).position(|window| window == b"\r\n\r\n");
    let head = head.map_or(0, |at| at + 4);
    assert!(received.starts_with(b"HTTP/1.1 101 "), "{received:?}");
    let mut rest = &received[head..];
    let mut is_closed = false;
    while let [first, second, tail @ ..] = rest {
        assert!(!is_closed, "a frame after the close frame");
        assert_eq!(second & 0x80, 0, "a server does not mask");
        assert_eq!(first & 0x70, 0, "no extension was agreed on");
        let (length, tail) = match (second, tail) {
            (126, [high, low, tail @ ..]) => (usize::from(*high) << 8 | usize::from(*low), tail),
            (127, tail) if tail.len() >= 8 => {
                let (length, tail) = tail.split_at(8);
                let length = length
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte));
                (length, tail)
            }
            (length, tail) => (usize::from(*length), tail),
        };
        // The last frame may be cut, because the client has left.
        let Some((payload, tail)) = tail.split_at_checked(length) else {
            return;
        };
        match first & 0x0f {
            1 => {
                assert!(serde_json::from_slice::<Value>(payload).is_ok(), "{payload:?}");
            }
            8 => is_closed = true,
            9 | 10 => assert!(payload.len() <= 125),
            code => panic!("a frame with the code {code}"),
        }
        rest = tail;
    }
}
