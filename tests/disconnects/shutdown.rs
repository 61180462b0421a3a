//! Shutdown with turns of every kind: silent, stalled, detached, and on the waiting list.

use ragwire::turn::TurnGroup;
use ragwire::wire::Decode;
use ragwire::{FailureKind, Frame, Ndjson, Status};
use serde_json::Value;

use crate::client::{Client, Fault};
use crate::server::{OWNER, Policy, STALL, Server, Transport};
use crate::stage::{State, cast};
use crate::{PATIENCE, alone, on_a_runtime, until};

/// The behaviour of the stalled client when the server shuts down.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stalled {
    ReadsOn,
    NeverReads,
}

/// Asserts that the client has read one end, that of a shutdown, and nothing after it.
fn assert_shut_down(transport: Transport, read: &str) {
    if transport == Transport::WebSocket {
        let messages: Vec<Value> = read
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let complete: Vec<bool> = messages
            .iter()
            .map(|message| message["complete"] == true)
            .collect();
        let (last, before) = complete.split_last().unwrap();
        assert!(*last && !before.contains(&true), "{complete:?}");
        let code = &messages[messages.len() - 1]["response"]["metadata"]["error"]["code"];
        assert_eq!(code, FailureKind::ShuttingDown.as_str());
    } else {
        let mut decoder = Ndjson::default().decoder();
        decoder.feed(read.as_bytes());
        decoder.finish();
        let mut frames: Vec<Frame> = decoder.map(|frame| frame.unwrap()).collect();
        let Some(Frame::End(end)) = frames.pop() else {
            panic!("no end: {read}");
        };
        assert_eq!(kind(end.status), FailureKind::ShuttingDown);
        assert!(!frames.iter().any(|frame| matches!(frame, Frame::End(_))));
    }
}

fn kind(status: Status) -> FailureKind {
    match status {
        Status::Failed(failure) => failure.kind,
        Status::Completed | Status::Stopped => panic!("the turn has not failed"),
    }
}

async fn shut_down(transport: Transport, stalled: Stalled) {
    let group = TurnGroup::builder().max_active(3).max_queued(1).build();
    let stall = match stalled {
        Stalled::ReadsOn => PATIENCE,
        Stalled::NeverReads => STALL,
    };
    let mut server = Server::start(transport, group.clone(), stall);

    let mut parts = Vec::new();
    let mut clients = Vec::new();
    let mut ids = Vec::new();
    for (state, policy) in [
        (State::Events, Policy::NoJournal),
        (State::Text, Policy::NoJournal),
        (State::Human, Policy::GoOn),
        (State::BeforeCommit, Policy::Cancel),
    ] {
        let (part, role) = cast(state);
        server.expect(role, policy);
        let client = Client::ask(transport, server.address).await;
        ids.push(server.ids.recv().await.unwrap());
        // The last one gets its position on the waiting list.
        client.has_read().await;
        parts.push(part);
        clients.push(client);
    }
    let [idle, slow, detached, queued] = &mut clients[..] else {
        unreachable!()
    };
    assert_eq!((group.active(), group.queued()), (3, 1));

    detached.leave(Fault::Fin);
    until("the detached client is disconnected", || {
        server.connections() == 3
    })
    .await;
    slow.leave(Fault::Stalled);
    parts[1].go.take().unwrap().send(()).unwrap();
    until("the stalled turn sends", || parts[1].sent() > 0).await;

    group.shut_down();
    server.gateway.shut_down();
    assert_eq!(group.check().unwrap_err().failure.kind, FailureKind::ShuttingDown);
    for client in [idle, queued] {
        assert_shut_down(transport, &client.all().await);
    }
    if stalled == Stalled::ReadsOn {
        slow.read_on();
        assert_shut_down(transport, &slow.all().await);
    }
    let drained = async {
        group.drained().await;
        if transport == Transport::WebSocket {
            server.gateway.drained().await;
        }
    };
    assert!(
        tokio::time::timeout(PATIENCE, drained).await.is_ok(),
        "not drained"
    );
    assert_eq!((group.active(), group.queued()), (0, 0));
    let detached = server.journal.resume(ids[2], OWNER, 0).await.unwrap();
    let detached = detached.collect().await.unwrap();
    assert_eq!(kind(detached.end.status), FailureKind::ShuttingDown);
    assert!(parts.iter().all(|part| part.is_gone()));
}

#[test]
fn shutdown_reaches_every_client_and_waits_for_none() {
    let _alone = alone();
    for transport in [Transport::Http1, Transport::Http2, Transport::WebSocket] {
        for stalled in [Stalled::ReadsOn, Stalled::NeverReads] {
            let play = async move || {
                let all = tokio::time::timeout(2 * PATIENCE, shut_down(transport, stalled));
                all.await.unwrap_or_else(|_| panic!("the test hangs"));
            };
            let outcome = on_a_runtime(play);
            assert_eq!(outcome, Ok(()), "{transport:?} {stalled:?}");
        }
    }
}
