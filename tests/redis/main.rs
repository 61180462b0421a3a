//! The journal on a real Redis server: every test starts its own server. Two journals in one
//! process are two hosts.
#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot continue fails its test")]

#[path = "../journals/mod.rs"]
mod journals;

mod faults;
mod limits;
mod outside;
mod server;
mod start;
mod suffix;

use std::time::Duration;

use ragwire::turn::{Disconnect, Journal, TurnBuilder};
use ragwire::{Commit, Frame, Sink, Status, Turn, TurnId};

use journals::{frames, spawn};
use server::Server;

/// Limits the time of a test. Only a test that hangs takes it.
async fn within<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, test).await.expect("the test hangs")
}

/// Returns the builder of a journaled turn of Alice that continues without readers.
fn journaled(journal: &Journal) -> TurnBuilder {
    Turn::builder()
        .journal(journal)
        .owner("alice")
        .on_disconnect(Disconnect::run_to_end())
}

/// Starts a turn and waits until its response has begun.
async fn begun(builder: TurnBuilder) -> (Sink, Turn, TurnId) {
    let (sink, turn) = builder.commit_on(Commit::deadline(Duration::ZERO)).channel();
    let turn = turn.commit().await.unwrap();
    let id = turn.id();
    (sink, turn, id)
}

async fn resume(journal: &Journal, id: TurnId, from: u64) -> Turn {
    journal.resume(id, "alice", from).await.unwrap()
}

/// Sends a text, and waits until it is frame `index` on the server.
async fn send(journal: &Journal, sink: &Sink, id: TurnId, index: u64, text: &str) {
    sink.send(text).await.unwrap();
    while journal.resume(id, "alice", index + 1).await.is_err() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the texts of the frames, and the end: a status, or the code of a failure.
fn texts_and_end(frames: &[Frame]) -> (Vec<&str>, String) {
    let (last, before) = frames.split_last().unwrap();
    let mut texts = Vec::new();
    for frame in before {
        match frame {
            Frame::Text(text) => texts.push(text.as_str()),
            other => panic!("{other:?}"),
        }
    }
    let Frame::End(end) = last else { panic!("{last:?}") };
    let end = match &end.status {
        Status::Failed(failure) => failure.kind.to_string(),
        status => status.as_str().to_owned(),
    };
    (texts, end)
}
