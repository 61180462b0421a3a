//! The limits of a journal on a server, the expiry of its keys, and what is left after the last
//! journal is dropped.

use futures_util::StreamExt;
use ragwire::turn::{JournalLimits, ResumeError};
use ragwire::wire::Decode;
use ragwire::{Metadata, Ndjson};

use super::*;

#[tokio::test]
async fn every_key_expires() {
    within(async {
        let server = Server::new();
        let limits = JournalLimits::default().keep(Duration::from_secs(1));
        let (here, there) = (
            server.journal_within(limits).await,
            server.journal_within(limits).await,
        );
        let check = |expected: usize| {
            let keys = server.ask(&["KEYS", "*"]);
            for key in &keys {
                let left: i64 = server.ask(&["PTTL", key])[0].parse().unwrap();
                assert!((-2..120_000).contains(&left) && left != -1, "{key}: {left}");
            }
            assert!(keys.len() >= expected, "{keys:?}");
        };
        let (sink, turn, id) = begun(journaled(&here).lane("c")).await;
        check(3);
        send(&there, &sink, id, 0, "a").await;
        let reader = resume(&there, id, 0).await;
        // The turn, its frames, its lease, its readers, its lane, and an inbox.
        check(6);
        assert_eq!(there.stop(id, "alice").await, Ok(true));
        check(6);
        drop((turn, reader));
        // A turn that has not ended, and one of a dropped host.
        let (_sink, _turn, _) = begun(journaled(&here)).await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        check(1);
        for journal in [&here, &there] {
            assert_eq!(
                journal.resume(id, "alice", 0).await.unwrap_err().code(),
                "unknown_turn"
            );
            assert_eq!(journal.latest("c", "alice").await, Ok(None));
        }
    })
    .await;
}

/// A frame costs the server one command. The script runs when a turn begins and ends, and when its
/// lease is renewed.
#[tokio::test]
async fn a_frame_is_one_command() {
    within(async {
        let server = Server::new();
        let options = server.options().lease(Duration::from_secs(60));
        let here = Journal::redis(options, JournalLimits::default()).await.unwrap();
        let (sink, turn, _) = begun(journaled(&here)).await;
        let mut reader = turn.stream(&Ndjson::default());
        server.ask(&["CONFIG", "RESETSTAT"]);
        for at in 0..20 {
            sink.send(format!("{at};")).await.unwrap();
            // The server has acknowledged it.
            assert!(reader.next().await.is_some());
        }
        sink.finish(Metadata::default()).unwrap();
        while reader.next().await.is_some() {}
        let calls = |command: &str| {
            let statistics = server.ask(&["INFO", "commandstats"]);
            let found = statistics.iter().find_map(|line| {
                let (_, calls) = line.split_once(&format!("cmdstat_{command}:calls="))?;
                calls.split(',').next()?.parse::<u64>().ok()
            });
            found.unwrap_or(0)
        };
        assert_eq!(calls("xadd"), 21);
        // The first frame, which is sent again until the server knows the script, and the end.
        assert!(calls("evalsha") <= 4, "{} calls", calls("evalsha"));
    })
    .await;
}

/// A turn that is silent for longer than a lease continues.
#[tokio::test]
async fn a_silent_turn_keeps_its_lease() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        let (sink, turn, id) = begun(journaled(&here)).await;
        send(&there, &sink, id, 0, "a").await;
        let reader = spawn(frames(resume(&there, id, 0).await));
        tokio::time::sleep(Duration::from_secs(3)).await;
        sink.send("b").await.unwrap();
        sink.finish(Metadata::default()).unwrap();
        assert_eq!(
            texts_and_end(&frames(turn).await),
            (vec!["a", "b"], "completed".to_owned())
        );
        assert_eq!(
            texts_and_end(&reader.await.unwrap()),
            (vec!["a", "b"], "completed".to_owned())
        );
    })
    .await;
}

#[tokio::test]
async fn frames_are_dropped_on_every_host() {
    within(async {
        let server = Server::new();
        let limits = JournalLimits::default().max_turn_bytes(1_000);
        let (here, there, late) = (
            server.journal_within(limits).await,
            server.journal_within(limits).await,
            server.journal_within(limits).await,
        );
        let (sink, _turn, id) = begun(journaled(&here)).await;
        send(&there, &sink, id, 0, "first").await;
        let mut slow = resume(&there, id, 0).await.stream(&Ndjson::default());
        let mut decoder = Ndjson::default().decoder();
        decoder.feed(&slow.next().await.unwrap());
        for at in 1..20 {
            send(&there, &sink, id, at, &"x".repeat(100)).await;
        }
        // A frame takes 64 bytes and its text, so the last six are stored.
        let gone = ResumeError::Gone { base: 14 };
        for journal in [&here, &there, &late] {
            assert_eq!(journal.resume(id, "alice", 0).await.unwrap_err(), gone);
            assert_eq!(journal.resume(id, "alice", 13).await.unwrap_err(), gone);
        }
        assert_eq!(server.ask(&["XLEN", &format!("ragwire:{{{id}}}:frames")]), ["6"]);
        decoder.feed(&slow.collect::<Vec<_>>().await.concat());
        let read: Vec<Frame> = decoder.map(Result::unwrap).collect();
        assert_eq!(texts_and_end(&read), (vec!["first"], "gone".to_owned()));
        sink.finish(Metadata::default()).unwrap();
        // The end takes bytes as well.
        while late.resume(id, "alice", 21).await.is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let rest = frames(resume(&late, id, 17).await).await;
        let x = "x".repeat(100);
        assert_eq!(texts_and_end(&rest), (vec![&*x; 3], "completed".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn the_number_of_turns_read_from_other_hosts_is_bounded() {
    within(async {
        let server = Server::new();
        let here = server.journal().await;
        let there = server.journal_within(JournalLimits::default().max_turns(1)).await;
        let (_one, _turn, one) = begun(journaled(&here)).await;
        let (_two, _turn, two) = begun(journaled(&here)).await;
        let reader = resume(&there, one, 0).await;
        let again = resume(&there, one, 0).await;
        assert_eq!(
            there.resume(two, "alice", 0).await.unwrap_err(),
            ResumeError::Unavailable
        );
        drop((reader, again));
        drop(resume(&there, two, 0).await);
    })
    .await;
}

/// Connections and tasks end with the journal, even during a blocking read that would last seconds.
#[test]
fn nothing_is_left_behind() {
    let server = Server::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(within(async {
        // The task that evicts expired turns sleeps until one expires.
        let limits = JournalLimits::default().keep(Duration::from_secs(1));
        let (here, there) = (
            server.journal_within(limits).await,
            server.journal_within(limits).await,
        );
        let (sink, turn, id) = begun(journaled(&here)).await;
        send(&there, &sink, id, 0, "a").await;
        let reader = resume(&there, id, 0).await;
        let clone = there.clone();
        drop(there);
        assert_eq!(clone.stop(id, "alice").await, Ok(true));
        drop(clone);
        // The readers keep the subscriber alive.
        assert_eq!(
            texts_and_end(&frames(reader).await),
            (vec!["a"], "stopped".to_owned())
        );
        assert_eq!(
            texts_and_end(&frames(turn).await),
            (vec!["a"], "stopped".to_owned())
        );
        drop((sink, here));
        let metrics = tokio::runtime::Handle::current().metrics();
        while metrics.num_alive_tasks() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Only the connection of this command is left.
        while server.ask(&["CLIENT", "LIST"]).len() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }));
}
