//! The heap that a reader occupies that never reads, however long the answer is. A test binary of
//! its own, because its allocator counts.
#![cfg(feature = "http")]
#![allow(clippy::disallowed_methods, reason = "servers here are tasks")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::alloc::System;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use ragwire::event::Reasoning;
use ragwire::{Framed, Metadata, SendError, Sink, Turn};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

const READERS: usize = 20;
const PIECE_BYTES: usize = 128 * 1024;
/// The queue's 48 KiB, hyper's 64 KiB, one more frame on top of a full buffer, and the growth of
/// vectors to powers of two: 290 to 300 KiB measured for events, and some tolerance between runs.
const MAX_BYTES_PER_READER: usize = 320 * 1024;

/// An endless answer of one kind. Counts what was sent.
async fn answer(kind: &'static str, sent: Arc<AtomicUsize>, sink: Sink) -> Result<Metadata, SendError> {
    loop {
        match kind {
            "tokens" => sink.send("token ").await?,
            "pieces" => sink.send("x".repeat(PIECE_BYTES)).await?,
            _ => sink.send(Reasoning::new("x".repeat(1000))).await?,
        }
        sent.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns the live bytes once everything before is freed.
async fn settled() -> usize {
    let mut last = live();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = live();
        // The runtime itself allocates a few bytes.
        if now.abs_diff(last) < 1024 {
            return now;
        }
        last = now;
    }
}

/// Returns the live bytes per reader once they no longer change.
async fn bytes_per_reader(kind: &'static str) -> usize {
    let sent = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let before = settled().await;
    let counter = Arc::clone(&sent);
    let server = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let counter = Arc::clone(&counter);
            let service = hyper::service::service_fn(move |_| {
                let turn = Turn::start(|sink| answer(kind, Arc::clone(&counter), sink));
                async move { Ok::<_, Infallible>(turn.commit().await.unwrap().respond(Framed::default())) }
            });
            connections.spawn(
                hyper::server::conn::http1::Builder::new()
                    .max_buf_size(64 * 1024)
                    .serve_connection(TokioIo::new(socket), service),
            );
        }
    });
    let mut sockets = Vec::new();
    for _ in 0..READERS {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket
            .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        sockets.push(socket);
    }
    // Data is sent until sockets and buffers are full.
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = sent.load(Ordering::SeqCst);
        if now > 0 && now == last {
            break;
        }
        last = now;
    }
    let after = settled().await;
    server.abort();
    after.saturating_sub(before) / READERS
}

#[test]
fn a_stalled_reader_is_bounded() {
    for kind in ["tokens", "pieces", "events"] {
        // One runtime each, so that no memory of one is freed while the next is measured.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let bytes = runtime.block_on(bytes_per_reader(kind));
        drop(runtime);
        println!("{kind}: {} KiB for each stalled reader", bytes / 1024);
        // The orchestrator itself owns the piece that it is sending.
        let own = if kind == "pieces" { PIECE_BYTES } else { 0 };
        assert!(bytes < MAX_BYTES_PER_READER + own, "{kind}: {bytes} bytes");
    }
}
