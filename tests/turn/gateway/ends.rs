//! The ends of sockets: closed by the client, after protocol errors, after silence, and by the
//! server.

use std::sync::atomic::{AtomicUsize, Ordering};

use ragwire::Timeouts;
use ragwire::http::gateway::{GatewayLimits, GatewayTimeouts};
use ragwire::turn::TurnGroup;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

use super::*;

// ---- the client disconnects ----

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_socket_drops_its_requests() {
    for server in [Server::Hyper, Server::Axum] {
        for politely in [true, false] {
            let stage = Stage::default();
            let (running, starting) = (stage.part("running"), stage.part("starting"));
            let gateway = stage.gateway().build();
            let mut client = server.connect(&gateway).await;
            client.ask("starting").await;
            client.ask("running").await;
            running.send_text("x").await;
            client.expect([chunk("running", "x")]).await;
            if politely {
                let frame = CloseFrame {
                    code: CloseCode::Normal,
                    reason: "".into(),
                };
                client.0.close(Some(frame.clone())).await.unwrap();
                // Only the response to the handshake.
                let answer = soon(client.0.next()).await.unwrap().unwrap();
                assert_eq!(answer, Message::Close(Some(frame)));
                assert!(soon(client.0.next()).await.is_none());
            } else {
                drop(client);
            }
            soon(running.gone).await.unwrap();
            soon(starting.gone).await.unwrap();
            soon(gateway.drained()).await;
            assert_eq!(gateway.active(), 0);
        }
    }
}

/// If a client reads nothing, its orchestrators are suspended after a few buffered bytes, and the
/// socket is closed in time.
#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_bounded_and_disconnected() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let (sender, mut gone) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, move |_| {
            let counter = Arc::clone(&counter);
            let gone = DropSignal(sender.lock().unwrap().take());
            // Longer than the socket's own time-out, which is tested here.
            let timeouts = Timeouts::default().write_stall(Duration::from_secs(3600));
            Turn::builder()
                .timeouts(timeouts)
                .start(async move |sink: Sink| {
                    let _gone = gone;
                    loop {
                        sink.send("x".repeat(1024)).await?;
                        counter.fetch_add(1, Ordering::SeqCst);
                    }
                    #[expect(unreachable_code, reason = "names the type of the result")]
                    Ok::<_, BoxError>(Metadata::default())
                })
                .commit()
        })
        .build();
    let (mut client, socket) = piped(&gateway).await;
    client.ask("1").await;
    let begun = Instant::now();
    // The paused clock advances only when every task waits.
    tokio::time::sleep(Duration::from_secs(29)).await;
    let pieces = sent.load(Ordering::SeqCst);
    // The turn's queue twice (once filled, once taken) and the pipe.
    assert!((48..=100).contains(&pieces), "{pieces} KiB");
    assert!(gone.try_recv().is_err());
    finished(socket).await;
    assert_eq!(begun.elapsed().as_secs(), 30);
    gone.await.unwrap();
    assert_eq!(sent.load(Ordering::SeqCst), pieces);
}

/// A client that keeps sending requests and pings but reads nothing: its pending answers are
/// bounded as well.
#[tokio::test(start_paused = true)]
async fn a_client_that_only_writes_is_not_read_forever() {
    let (client, socket) = piped(&Stage::default().gateway().build()).await;
    let mut client = client.0;
    let begun = Instant::now();
    let mut written = 0;
    while written < 1024 * 1024 && soon_paused(client.send(Message::Ping(vec![0; 125].into()))).await {
        written += 125;
    }
    assert!(written < 64 * 1024, "{written} bytes");
    finished(socket).await;
    assert_eq!(begun.elapsed().as_secs(), 30);
}

/// Returns false if the future fails or takes longer than any time-out here.
async fn soon_paused<T, E>(future: impl Future<Output = Result<T, E>>) -> bool {
    tokio::time::timeout(Duration::from_secs(300), future)
        .await
        .is_ok_and(|sent| sent.is_ok())
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_pinged_and_then_disconnected() {
    let stage = Stage::default();
    let part = stage.part("1");
    let (mut client, socket) = piped(&stage.gateway().build()).await;
    client.ask("1").await;
    let begun = Instant::now();
    // A client that reads answers pings, so its socket stays open.
    for _ in 0..3 {
        assert_eq!(
            client.0.next().await.unwrap().unwrap(),
            Message::Ping(Vec::new().into())
        );
    }
    assert_eq!(begun.elapsed().as_secs(), 60);
    part.send_text("still here").await;
    client.expect([chunk("1", "still here")]).await;
    // A client that does not read does not answer: the next ping is sent after 20 seconds and times
    // out after 30.
    soon_paused(async { Ok::<_, ()>(part.gone.await) }).await;
    assert_eq!(begun.elapsed().as_secs(), 60 + 20 + 30);
    finished(socket).await;
}

#[tokio::test]
async fn pings_are_answered_while_an_answer_streams() {
    let stage = Stage::default();
    let part = stage.part("1");
    let mut client = Server::Axum.connect(&stage.gateway().build()).await;
    client.ask("1").await;
    part.send_text("x").await;
    client.expect([chunk("1", "x")]).await;
    client
        .0
        .send(Message::Ping("are you there".into()))
        .await
        .unwrap();
    assert_eq!(
        soon(client.0.next()).await.unwrap().unwrap(),
        Message::Pong("are you there".into())
    );
}

// ---- protocol errors ----

#[tokio::test]
async fn a_protocol_error_closes_the_socket_with_its_code() {
    let text =
        |bytes: &[u8], fin| Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(Data::Text), fin));
    let more =
        |bytes: &[u8], fin| Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(Data::Continue), fin));
    let cases: Vec<(Vec<Message>, u16, &str)> = vec![
        (vec![Message::binary(b"{}".to_vec())], 1003, "text only"),
        (vec![text(b"\xff", true)], 1007, "text is not UTF-8"),
        // The first half of a character without the second.
        (
            vec![text(b"\xe2\x82", false), more(b"{}", true)],
            1007,
            "text is not UTF-8",
        ),
        (vec![text(&[b' '; 101], true)], 1009, "message too large"),
        (
            vec![text(&[b' '; 60], false), more(&[b' '; 41], true)],
            1009,
            "message too large",
        ),
        // Empty frames continue a message for as long as they come.
        (
            std::iter::once(text(b"", false))
                .chain(std::iter::repeat_n(more(b"", false), 3000))
                .collect(),
            1008,
            "too many frames for one message",
        ),
        (vec![more(b"{}", true)], 1002, "protocol error"),
        (vec![text(b"{", false), text(b"}", true)], 1002, "protocol error"),
        (
            vec![Message::Frame(Frame::message(
                Vec::new(),
                OpCode::Data(Data::Reserved(3)),
                true,
            ))],
            1002,
            "protocol error",
        ),
        (
            vec![Message::Ping(vec![0; 126].into())],
            1009,
            "message too large",
        ),
    ];
    let limits = GatewayLimits::default()
        .max_message_bytes(100)
        .max_frame_bytes(100);
    for server in [Server::Hyper, Server::Axum] {
        let gateway = Stage::default().gateway().limits(limits).build();
        for (messages, code, reason) in &cases {
            let mut client = server.connect(&gateway).await;
            for message in messages {
                client.0.send(message.clone()).await.unwrap();
            }
            client.expect_close(*code, reason).await;
        }
        soon(gateway.drained()).await;
    }
}

/// Written by hand, since tungstenite's client always masks.
#[tokio::test]
async fn an_unmasked_frame_closes_the_socket() {
    let gateway = Stage::default().gateway().build();
    let mut client = Server::Hyper.connect(&gateway).await;
    client.0.get_mut().write_all(b"\x81\x02{}").await.unwrap();
    client.expect_close(1002, "protocol error").await;
}

/// A message of exactly the maximum size is served, in one frame or in several, including empty
/// ones.
#[tokio::test]
async fn the_limit_itself_is_allowed() {
    let limits = GatewayLimits::default()
        .max_message_bytes(100)
        .max_frame_bytes(60);
    let mut client = Server::Axum
        .connect(&Stage::default().gateway().limits(limits).build())
        .await;
    let message = format!("{:100}", r#"{"type":"auth"}"#);
    let (first, second) = message.as_bytes().split_at(40);
    let frame =
        |bytes: &[u8], kind, fin| Message::Frame(Frame::message(bytes.to_vec(), OpCode::Data(kind), fin));
    client.0.send(frame(first, Data::Text, false)).await.unwrap();
    for _ in 0..1000 {
        client.0.send(frame(b"", Data::Continue, false)).await.unwrap();
    }
    client.0.send(frame(second, Data::Continue, true)).await.unwrap();
    client.expect([r#"{"type":"auth-ok"}"#.into()]).await;
}

// ---- the server shuts down ----

const RESTARTING: &str = "The server is restarting. Please retry in a moment.";

fn shutting_down(id: &str) -> String {
    failed(id, "gateway-error", "shutting_down", RESTARTING)
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_every_id_and_then_the_socket() {
    for server in [Server::Hyper, Server::Axum] {
        let stage = Stage::default();
        let (running, starting) = (stage.part("running"), stage.part("starting"));
        let gateway = stage.gateway().build();
        let address = server.serve(&gateway).await;
        let mut client = Client::shake(TcpStream::connect(address).await.unwrap()).await;
        client.ask("starting").await;
        client.ask("running").await;
        running.send_text("x").await;
        client.expect([chunk("running", "x")]).await;
        gateway.shut_down();
        let mut messages = client.texts(2).await;
        messages.sort();
        assert_eq!(
            messages,
            [shutting_down("running"), shutting_down("starting")],
            "{server:?}"
        );
        client.expect_close(1001, "shutting down").await;
        soon(gateway.drained()).await;
        soon(running.gone).await.unwrap();
        soon(starting.gone).await.unwrap();

        let refused = tokio_tungstenite::client_async(
            "ws://x/api/v1/socket",
            TcpStream::connect(address).await.unwrap(),
        );
        let tokio_tungstenite::tungstenite::Error::Http(response) = refused.await.unwrap_err() else {
            panic!("a socket was opened")
        };
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "5");
    }
}

/// The application's own group shuts down first, as in a server: each client gets one end.
#[tokio::test]
async fn the_shutdown_of_a_group_is_reported_once() {
    let group = TurnGroup::new(8);
    let of_group = group.clone();
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, move |_| {
            Turn::builder()
                .group(&of_group)
                .start(async |sink: Sink| {
                    sink.send("x").await?;
                    std::future::pending::<Result<Metadata, BoxError>>().await
                })
                .commit()
        })
        .build();
    let mut client = Server::Hyper.connect(&gateway).await;
    client.ask("1").await;
    client.expect([chunk("1", "x")]).await;
    group.shut_down();
    gateway.shut_down();
    client.expect([shutting_down("1")]).await;
    client.expect_close(1001, "shutting down").await;
    soon(group.drained()).await;
}

/// A client that neither reads nor closes does not delay the server.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_answer_the_close_is_disconnected() {
    let gateway = Stage::default().gateway().build();
    let (client, socket) = piped(&gateway).await;
    let begun = Instant::now();
    gateway.shut_down();
    finished(socket).await;
    assert_eq!(begun.elapsed(), GatewayTimeouts::default().close);
    drop(client);
}

/// An idle socket is closed even if its client has sent half a message.
#[tokio::test]
async fn shutdown_closes_idle_sockets() {
    let gateway = Stage::default().gateway().build();
    let mut client = Server::Axum.connect(&gateway).await;
    client.0.get_mut().write_all(b"\x81\x85").await.unwrap();
    gateway.shut_down();
    let mut received = Vec::new();
    soon(client.0.get_mut().read_buf(&mut received)).await.unwrap();
    assert_eq!(received, b"\x88\x0f\x03\xe9shutting down");
    drop(client);
    soon(gateway.drained()).await;
}

/// While the client still reads an answer, new requests are refused with the same code.
#[tokio::test(start_paused = true)]
async fn requests_during_shutdown_are_refused() {
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, |_| {
            Turn::start(async |sink: Sink| {
                sink.send("x".repeat(40_000)).await?;
                std::future::pending::<Result<Metadata, BoxError>>().await
            })
            .commit()
        })
        .build();
    let (mut client, socket) = piped(&gateway).await;
    client.ask("1").await;
    // The pipe is full now, and most of the answer is still queued.
    tokio::time::sleep(Duration::from_secs(1)).await;
    gateway.shut_down();
    client.ask("2").await;
    client.expect([chunk("1", &"x".repeat(40_000))]).await;
    let mut messages = client.texts(2).await;
    messages.sort();
    assert_eq!(messages, [shutting_down("1"), shutting_down("2")]);
    client.expect_close(1001, "shutting down").await;
    finished(socket).await;
}

/// The ID of a handler that never returns a turn ends in time and may be used again. Other IDs
/// continue.
#[tokio::test(start_paused = true)]
async fn a_handler_that_never_returns_times_out() {
    let (sender, gone) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let stage = Stage::default();
    let part = stage.part("runs");
    let gateway = stage
        .gateway()
        .service("never", ServiceKind::GraphRag, move |_| {
            let gone = DropSignal(sender.lock().unwrap().take());
            async move {
                let _gone = gone;
                std::future::pending().await
            }
        })
        .timeouts(GatewayTimeouts::default().start(Duration::from_secs(7)))
        .build();
    let (mut client, socket) = piped(&gateway).await;
    client.ask("runs").await;
    part.send_text("x").await;
    client.expect([chunk("runs", "x")]).await;
    let begun = Instant::now();
    client
        .send(json!({ "id": "1", "service": "never", "request": { "query": "q", "streaming": true } }))
        .await;
    let late = "The answer took too long. Please retry.";
    client
        .expect([failed("1", "gateway-error", "timeout", late)])
        .await;
    assert_eq!(begun.elapsed().as_secs(), 7);
    gone.await.unwrap();
    // A turn that has begun has its own time-outs.
    part.send_text("y").await;
    client.expect([chunk("runs", "y")]).await;
    drop(client);
    finished(socket).await;
}
