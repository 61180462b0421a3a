//! The journal on a real Redis server: every test starts one of its own. Two journals in one process are two hosts.
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

mod server;

use std::time::Duration;

use futures_util::StreamExt;
use ragwire::turn::{Disconnect, Journal, TurnBuilder};
use ragwire::wire::{Decode, Wire};
use ragwire::{Frame, Ndjson, Turn};

use server::Server;

/// Longest time of a test: only what hangs takes it.
async fn within<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), test)
        .await
        .expect("it hangs")
}

/// A journaled turn that goes on without readers.
fn kept(journal: &Journal) -> TurnBuilder {
    Turn::builder()
        .journal(journal)
        .owner("alice")
        .on_disconnect(Disconnect::go_on())
}

async fn bytes(turn: Turn, wire: &impl Wire) -> Vec<u8> {
    turn.stream(wire).collect::<Vec<_>>().await.concat()
}

async fn frames(turn: Turn) -> Vec<Frame> {
    let mut decoder = Ndjson::default().decoder();
    decoder.feed(&bytes(turn, &Ndjson::default()).await);
    let frames = decoder.by_ref().map(Result::unwrap).collect();
    assert_eq!(decoder.finish(), ragwire::wire::Finish::Complete);
    frames
}

#[tokio::test]
async fn another_host_reads_on() {
    within(async {
        let server = Server::new();
        let (here, there, third) = (
            server.journal().await,
            server.journal().await,
            server.journal().await,
        );
        let (sink, turn) = kept(&here).channel();
        sink.send("a").await.unwrap();
        let turn = turn.commit().await.unwrap();
        let id = turn.id();
        let live = tokio::spawn(async move { frames(turn).await });
        let far = there.resume(id, "alice", 0).await.unwrap();
        let far = tokio::spawn(async move { frames(far).await });
        for text in ["b", "c", "d"] {
            tokio::time::sleep(Duration::from_millis(20)).await;
            sink.send(text).await.unwrap();
        }
        assert_eq!(
            third.resume(id, "mallory", 0).await.unwrap_err().code(),
            "unknown_turn"
        );
        assert_eq!(third.stop(id, "alice").await, Ok(true));
        let (live, far) = (live.await.unwrap(), far.await.unwrap());
        assert_eq!(live, far);
        assert!(matches!(live.last(), Some(Frame::End(end)) if end.status.as_str() == "stopped"));
        assert_eq!(third.stop(id, "alice").await, Ok(false));
        assert_eq!(frames(third.resume(id, "alice", 0).await.unwrap()).await, live);
    })
    .await;
}
