//! Readers, stops and answers on other hosts than the one that runs the turn.

use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use ragwire::wire::{Decode, Wire};
use ragwire::{Frame, Framed, Ndjson};
use ragwire_test_support::history::{End, Verdict};
use ragwire_test_support::redis::RedisServer;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::hosts::Host;
use crate::reader::{Numbered, PATIENCE, Reader, ask, call, call_with, paced_text, send};
use crate::{judged, late};

const WORDS: u32 = 30;
/// The frames besides the words: the search, a thought for each tenth word, and the end. The queue
/// may merge words.
const MOST_FRAMES: usize = WORDS as usize + 5;

/// The wires of a reader that moves.
#[derive(Clone, Copy, Debug)]
enum Wires {
    Same(Numbered),
    InTurns,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_moves_between_two_hosts_every_k_frames_sees_one_turn() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 2] = Host::several(&redis, &[]);
    let addresses = hosts.each_ref().map(|host| host.address().to_owned());
    let mut moving = JoinSet::new();
    for frames in 1..=8 {
        for wires in [
            Wires::Same(Numbered::Lines),
            Wires::Same(Numbered::Events),
            Wires::InTurns,
        ] {
            moving.spawn(moves(addresses.clone(), frames, wires));
        }
    }
    while let Some(moved) = moving.join_next().await {
        moved.unwrap();
    }
}

async fn moves([one, other]: [String; 2], frames: u64, wires: Wires) {
    let context = format!("every {frames} frames, {wires:?}");
    let name = format!("k{frames}");
    let prompt = format!("fault:paced {WORDS} 8 {name}");
    let first = match wires {
        Wires::Same(wire) => wire,
        Wires::InTurns => Numbered::Lines,
    };
    let mut mover = ask("mover", first, &one, &prompt).await.unwrap();
    let mut far = Reader::new("far", Numbered::Events, &mover.turn);
    let far_reading = far.follow([&other]);
    let moving = async {
        let mut visits = 0;
        while mover.read(frames).await && !mover.is_done() {
            visits += 1;
            if matches!(wires, Wires::InTurns) {
                mover.on(Numbered::BOTH[visits % 2]);
            }
            let address = [&one, &other][visits % 2];
            assert!(
                mover.visit(address).await || mover.is_done(),
                "{context}: {:?}",
                mover.history
            );
        }
    };
    tokio::join!(far_reading, moving);
    let turn = mover.turn.clone();
    let readers = [mover, far, late(&turn, &one).await, late(&turn, &other).await];
    for reader in &readers {
        assert_eq!(
            reader.text(),
            paced_text(WORDS, &name),
            "{context}, {}",
            reader.history.reader
        );
    }
    let Verdict { end, frames, notices } = judged(&readers, &[], &context);
    assert!(frames <= MOST_FRAMES, "{context}: {frames}");
    assert_eq!(end, Some((frames as u64 - 1, End::Completed)), "{context}");
    assert_eq!(notices, [], "{context}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_index_of_a_turn_gives_the_exact_rest_on_every_host() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 2] = Host::several(&redis, &[]);
    let mut first = ask(
        "first",
        Numbered::Lines,
        hosts[0].address(),
        "fault:paced 12 1 all",
    )
    .await
    .unwrap();
    first.follow([hosts[0].address()]).await;
    let turn = first.turn.clone();
    let whole = first.history.visits[0].frames.clone();
    let count = whole.len() as u64;
    for host in &hosts {
        for wire in Numbered::BOTH {
            for index in 0..count {
                let mut reader = Reader::from("reader", wire, &turn, index);
                assert!(reader.visit(host.address()).await);
                while reader.next().await.is_some() {}
                let seen = &reader.history.visits[0].frames;
                assert_eq!(seen, &whole[index as usize..], "{index} on {wire:?}");
            }
            let path = |from: u64| format!("/v1/turns/{turn}/stream?from={from}");
            let nothing = call(Method::GET, host.address(), &path(count), None).await;
            assert_eq!(nothing.unwrap(), (204, Value::Null));
            let (status, body) = call(Method::GET, host.address(), &path(count + 1), None)
                .await
                .unwrap();
            assert_eq!((status, &body["error"]["code"]), (416, &json!("ahead")));
        }
        framed_suffixes(host, &turn, &frames_of(host, &turn).await).await;
    }
}

/// Reads the frames of a turn with the crate's own decoder.
async fn frames_of(host: &Host, turn: &str) -> Vec<Frame> {
    let mut decoder = Ndjson::default().decoder();
    decoder.feed(&body_of(host, turn, 0, "application/x-ndjson").await);
    decoder.by_ref().collect::<Result<_, _>>().unwrap()
}

async fn body_of(host: &Host, turn: &str, from: usize, accept: &str) -> bytes::Bytes {
    let path = format!("/v1/turns/{turn}/stream?from={from}");
    let response = send(Method::GET, host.address(), &path, &[("accept", accept)], None)
        .await
        .unwrap();
    assert_eq!(response.status(), 200);
    let body = tokio::time::timeout(PATIENCE, response.into_body().collect());
    body.await.unwrap().unwrap().to_bytes()
}

/// Encodes each frame on the framed wire.
fn framed(frames: &[Frame]) -> Vec<BytesMut> {
    let mut encoder = Framed::default().encoder();
    let encoded = frames.iter().map(|frame| {
        let mut bytes = BytesMut::new();
        match frame {
            Frame::Event { event, timestamp } => encoder.event(event, *timestamp, &mut bytes).unwrap(),
            Frame::Text(text) => encoder.text(text, &mut bytes).unwrap(),
            Frame::End(end) => encoder.end(end, &mut bytes).unwrap(),
            Frame::Snapshot(_) => unreachable!("nothing is dropped"),
        }
        bytes
    });
    encoded.collect()
}

/// Checks the framed wire: it has no indexes, but the rest of a turn is as exact.
async fn framed_suffixes(host: &Host, turn: &str, frames: &[Frame]) {
    let pieces = framed(frames);
    for index in 0..frames.len() {
        let rest = body_of(host, turn, index, "text/plain").await;
        assert_eq!(rest, pieces[index..].concat(), "from {index}");
    }
}

/// On the framed wire a reader cannot count texts. So it moves after the bytes of a number of
/// frames, which it learns from a reader on another wire.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_framed_wire_moves_too() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 2] = Host::several(&redis, &[]);
    let addresses = hosts.each_ref().map(|host| host.address().to_owned());
    let mut moving = JoinSet::new();
    for frames in 1..=5 {
        moving.spawn(moves_framed(addresses.clone(), frames));
    }
    while let Some(moved) = moving.join_next().await {
        moved.unwrap();
    }
}

async fn moves_framed(addresses: [String; 2], step: usize) {
    let prompt = format!("fault:paced {WORDS} 8 k{step}");
    let mut guide = ask("guide", Numbered::Lines, &addresses[0], &prompt)
        .await
        .unwrap();
    let turn = guide.turn.clone();
    let mut decoder = Ndjson::default().decoder();
    let (mut frames, mut read, mut visits) = (Vec::new(), BytesMut::new(), 0);
    let mut has_ended = false;
    while !has_ended {
        let begun = frames.len();
        while frames.len() < begun + step && !has_ended {
            let seen = guide.next().await.expect("the guide receives all frames");
            let line = [
                format!("{{\"index\":{},", seen.index).as_bytes(),
                &seen.bytes[1..],
                b"\n",
            ]
            .concat();
            decoder.feed(&line);
            frames.push(decoder.next().unwrap().unwrap());
            has_ended = seen.end.is_some();
        }
        let pieces = framed(&frames);
        let due = pieces[begun..].concat();
        let path = format!("/v1/turns/{turn}/stream?from={begun}");
        let address = &addresses[visits % 2];
        visits += 1;
        let response = send(Method::GET, address, &path, &[("accept", "text/plain")], None)
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        let mut part = BytesMut::new();
        while part.len() < due.len() {
            let more = tokio::time::timeout(PATIENCE, body.frame()).await.unwrap();
            part.extend_from_slice(&more.expect("the stream continues").unwrap().into_data().unwrap());
        }
        read.extend_from_slice(&part[..due.len()]);
        assert_eq!(&part[..due.len()], &due, "from frame {begun} on");
    }
    assert_eq!(read, framed(&frames).concat());
    judged(&[guide], &[], "the guide");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_on_a_third_host_ends_the_turn_for_all() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 3] = Host::several(&redis, &[]);
    let [here, there, third] = hosts.each_ref().map(Host::address);
    let mut own = ask("own", Numbered::Lines, here, "fault:paced 3000 20 stop")
        .await
        .unwrap();
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    assert!(own.read(5).await);
    assert!(far.visit(there).await && far.read(5).await);
    let path = format!("/v1/turns/{}/stop", own.turn);
    let stop = |address| call(Method::POST, address, &path, None);
    assert_eq!(stop(third).await.unwrap(), (200, json!({ "stopped": true })));
    tokio::join!(own.follow([here]), far.follow([there]));
    // Again, on the host that runs the turn and on another one.
    for address in [here, there, third] {
        assert_eq!(stop(address).await.unwrap(), (200, json!({ "stopped": false })));
    }
    let turn = own.turn.clone();
    let readers = [own, far, late(&turn, third).await, late(&turn, here).await];
    let verdict = judged(&readers, &[], "stopped");
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Stopped));
    assert_eq!(verdict.notices, []);
    let unknown = format!("/v1/turns/{}/stop", "0".repeat(32));
    let (status, body) = call(Method::POST, third, &unknown, None).await.unwrap();
    assert_eq!((status, &body["error"]["code"]), (404, &json!("unknown_turn")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_on_a_third_host_reaches_the_question() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 3] = Host::several(&redis, &[]);
    let [here, there, third] = hosts.each_ref().map(Host::address);
    let mut own = ask("own", Numbered::Lines, here, "fault:ask").await.unwrap();
    let mut far = Reader::new("far", Numbered::Events, &own.turn);
    // The search and the question.
    assert!(own.read(2).await);
    assert!(far.visit(there).await && far.read(2).await);
    let path = format!("/v1/turns/{}/answer", own.turn);
    let answer = |address, request: &str, response: &str| {
        let body = json!({ "request_id": request, "response": response });
        let path = path.clone();
        async move {
            let (status, body) = call(Method::POST, address, &path, Some(body)).await.unwrap();
            (
                status,
                body["error"]["code"].as_str().unwrap_or("taken").to_owned(),
                body["accepted"].clone(),
            )
        }
    };
    let reply = |status: u16, code: &str, accepted: Value| (status, code.to_owned(), accepted);
    assert_eq!(
        answer(third, "other", "Approve").await,
        reply(404, "ask_unknown", Value::Null)
    );
    assert_eq!(
        answer(third, "delete", "Perhaps").await,
        reply(422, "answer_invalid", Value::Null)
    );
    assert_eq!(
        answer(third, "delete", "Approve").await,
        reply(200, "taken", json!(true))
    );
    assert_eq!(
        answer(there, "delete", "Approve").await,
        reply(200, "taken", json!(false))
    );
    assert_eq!(
        answer(there, "delete", "Deny").await,
        reply(409, "ask_answered", Value::Null)
    );
    tokio::join!(own.follow([here]), far.follow([there]));
    assert_eq!(own.text(), "They are deleted.");
    let turn = own.turn.clone();
    let readers = [own, far, late(&turn, third).await];
    let verdict = judged(&readers, &[], "answered");
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed));
    // The turn has ended; its answer stays known on every host.
    for address in [here, there, third] {
        assert_eq!(
            answer(address, "delete", "Deny").await,
            reply(409, "ask_answered", Value::Null)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_continues_while_another_host_reads_it_and_not_much_longer() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 2] = Host::several(&redis, &["--disconnect-grace", "1s"]);
    let [here, there] = hosts.each_ref().map(Host::address);
    // Much longer than the grace period.
    let mut read = ask("read", Numbered::Lines, here, "fault:paced 200 20 read")
        .await
        .unwrap();
    assert!(read.read(3).await && read.visit(there).await);
    let mut left = ask("left", Numbered::Lines, here, "fault:paced 5000 20 left")
        .await
        .unwrap();
    assert!(left.read(3).await && left.visit(there).await && left.read(3).await);
    left.leave();
    read.follow([there]).await;
    assert_eq!(read.text(), paced_text(200, "read"));
    let verdict = judged(&[read], &[], "read elsewhere");
    assert_eq!(verdict.end.map(|(_, end)| end), Some(End::Completed));
    // The other turn has no reader. A check of its lane once a second shows when it has ended.
    let path = format!("/v1/turns/{}/stop", left.turn);
    let ended = async {
        while redis.cli(&["EXISTS", &format!("ragwire:{{{}}}:lease", left.turn)]) != "0" {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    let stopped = call(Method::POST, here, &path, None).await.unwrap();
    assert_eq!(stopped, (200, json!({ "stopped": false })));
    left.follow([there]).await;
    assert_eq!(left.end(), Some(&End::Stopped));
    judged(&[left], &[], "left alone");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_turn_of_another_owner_looks_like_an_unknown_one_on_every_host() {
    let redis = RedisServer::durable("always");
    let hosts: [Host; 2] = Host::several(&redis, &["--owner-header", "x-user"]);
    let [here, there] = hosts.each_ref().map(Host::address);
    let as_user = |method: Method, address, path: String, user| async move {
        call_with(method, address, &path, &[("x-user", user)], None)
            .await
            .unwrap()
    };
    let headers = [("x-user", "alice"), ("prefer", "respond-async")];
    let question = json!({ "prompt": "fault:no-events" });
    let asked = send(Method::POST, here, "/v1/turns", &headers, Some(question))
        .await
        .unwrap();
    assert_eq!(asked.status(), 202);
    let turn = asked.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    let known = |body: &Value| {
        let mut body = body.clone();
        let id = body["error"]["request_id"].take();
        assert!(id.is_string());
        body
    };
    for address in [here, there] {
        let (status, _) = as_user(Method::GET, address, format!("/v1/turns/{turn}/stream"), "alice").await;
        assert_eq!(status, 200);
        for (method, action) in [(Method::GET, "stream"), (Method::POST, "stop")] {
            let path = |turn: &str| format!("/v1/turns/{turn}/{action}");
            let foreign = as_user(method.clone(), address, path(&turn), "mallory").await;
            let none = as_user(method, address, path(&"1".repeat(32)), "mallory").await;
            assert_eq!(foreign.0, 404);
            assert_eq!((foreign.0, known(&foreign.1)), (none.0, known(&none.1)));
        }
    }
}
