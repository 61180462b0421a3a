//! Turns on a paused clock, over real sockets, and through the gateway. Orchestrators are scripts
//! and expected bytes are literal; only timestamps are removed.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot continue fails its test")]

mod around;
mod crowd;
mod delays;
mod ends;
mod executor;
mod figures;
#[cfg(all(feature = "axum", feature = "ws"))]
mod gateway;
mod human;
mod journal;
#[path = "../journals/mod.rs"]
mod journals;
mod outside;
mod polls;
mod queues;
mod relay;
mod sinks;
#[cfg(feature = "axum")]
mod sockets;
mod stops;
mod waits;
mod waits_ends;
mod waits_model;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use ragwire::event::{Custom, Reasoning, Search};
use ragwire::turn::{
    BoxError, Ending, Pending, QueueLimits, Reply, TrySendError, TurnBuilder, TurnGroup, TurnHandle,
    TurnStream, collect_evidence,
};
use ragwire::wire::Limits;
use ragwire::{
    Commit, Event, EventSink, Failure, Framed, Metadata, Rejected, SendError, Sink, Status, Timeouts, Turn,
};
use tokio::time::Instant;

/// One step of an orchestrator.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A search event.
    Report,
    Text(&'static str),
    Bytes(&'static [u8]),
    /// Milliseconds.
    Wait(u64),
    Fail,
    FailAs(&'static str, &'static str),
    Panic,
}
use Step::{Bytes, Fail, FailAs, Panic, Report, Text, Wait};

async fn play(steps: &'static [Step], sink: Sink) -> Result<Metadata, BoxError> {
    for step in steps {
        match *step {
            Report => sink.send(Search::new("bm25")).await?,
            Text(text) => sink.send(text).await?,
            Bytes(bytes) => sink.send(bytes).await?,
            Wait(after) => tokio::time::sleep(ms(after)).await,
            Fail => return Err("/etc/secret: no such key".into()),
            FailAs(code, message) => return Err(Failure::new(code, message).into()),
            Panic => panic!("the script says so"),
        }
    }
    Ok(Metadata::default().tools_used(["bm25"]))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns everything that the reader gets: the bytes without timestamps, or the code of the
/// rejection.
async fn read(pending: Pending) -> Result<String, String> {
    match pending.commit().await {
        Ok(turn) => Ok(drain(turn.stream(&Framed::default())).await),
        Err(rejected) => Err(rejected.failure.kind.to_string()),
    }
}

async fn drain(stream: TurnStream) -> String {
    plain(&stream.collect::<Vec<_>>().await.concat())
}

fn plain(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut parts = text.split(",\"timestamp\":\"");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').unwrap().1)
}

const SEARCH: &str = "{\"event\":\"search\",\"tool\":\"bm25\"}\n";
const DONE: &str = "\x1e{\"citations\":[],\"tools_used\":[\"bm25\"]}";
const EMPTY: &str = "\x1e{\"citations\":[],\"tools_used\":[]}";
const STOPPED: &str = "\x1e{\"citations\":[],\"tools_used\":[],\"status\":\"stopped\"}";
const SORRY: &str = "I hit an internal error while gathering evidence. Please retry.";
const FAILED: &str = "\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"chat_failed\",\"message\":\"I hit an internal error while gathering evidence. Please retry.\",\"recoverable\":true}}";
const TOO_LONG: &str = "The answer took too long. Please retry.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"timeout\",\"message\":\"The answer took too long. Please retry.\",\"recoverable\":true}}";
const TOO_SLOW: &str = "The connection was too slow for this answer. Please retry.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"write_stalled\",\"message\":\"The connection was too slow for this answer. Please retry.\",\"recoverable\":true}}";

/// Runs `steps` and compares everything that the reader gets: bytes, or the code of the rejection.
async fn check(turn: TurnBuilder, steps: &'static [Step], expected: Result<String, &str>) {
    let read = read(turn.start(|sink| play(steps, sink))).await;
    assert_eq!(read, expected.map_err(str::to_owned), "{steps:?}");
}

/// Records when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn new() -> (Self, Arc<AtomicBool>) {
        let dropped = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&dropped)), dropped)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs all tasks until they wait.
async fn settle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

/// Returns the result of every way to send.
async fn codes(sink: &Sink) -> [String; 5] {
    let closed = sink
        .closed()
        .map_or_else(|| "open".into(), |error| error.code().into());
    let code =
        |sent: Result<(), SendError>| sent.map_or_else(|error| error.code().into(), |()| "sent".into());
    let tried = match sink.try_send("x") {
        Ok(()) => "sent".into(),
        Err(TrySendError::Full) => "full".into(),
        Err(TrySendError::Send(error)) => error.code().into(),
        Err(error) => error.to_string(),
    };
    [
        closed,
        code(sink.send("x").await),
        code(sink.send(Search::new("bm25")).await),
        tried,
        code(sink.finish(Metadata::default())),
    ]
}
