//! Hosts that die or resume too late, and a server that loses data.

use std::sync::mpsc;

use ragwire::Metadata;
use ragwire::turn::ResumeError;
use tokio::runtime::{Builder, Runtime};

use super::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

/// Opens a journal that soon notices a dead host.
async fn impatient_journal(server: &Server) -> Journal {
    let options = server.options().connect_timeout(Duration::from_millis(100));
    Journal::redis(options, ragwire::turn::JournalLimits::default())
        .await
        .unwrap()
}

/// The producer's whole runtime is dropped without an end: all readers on other hosts get the same
/// end, once.
#[tokio::test]
async fn a_dead_host_is_noticed() {
    within(async {
        let server = Server::new();
        let dying = runtime();
        let url = server.options().connect_timeout(Duration::from_millis(100));
        let (sink, here, id, local) = dying
            .spawn(async move {
                let here = Journal::redis(url, ragwire::turn::JournalLimits::default())
                    .await
                    .unwrap();
                let (sink, turn, id) = begun(journaled(&here)).await;
                send(&here, &sink, id, 0, "a").await;
                (sink, here, id, turn)
            })
            .await
            .unwrap();
        let (there, third) = (impatient_journal(&server).await, impatient_journal(&server).await);
        let readers = [
            resume(&there, id, 0).await,
            resume(&there, id, 0).await,
            resume(&third, id, 0).await,
        ];
        tokio::task::spawn_blocking(move || drop(dying)).await.unwrap();
        // On this host the recorder still ends the turn, but cannot send the end to the server.
        assert_eq!(
            texts_and_end(&frames(local).await),
            (vec!["a"], "chat_failed".to_owned())
        );
        let mut all = Vec::new();
        for turn in readers {
            all.push(frames(turn).await);
        }
        assert_eq!(texts_and_end(&all[0]), (vec!["a"], "interrupted".to_owned()));
        assert!(all.iter().all(|frames| *frames == all[0]), "{all:?}");
        // The end is a frame like any other: a later reader gets the same one.
        let late = impatient_journal(&server).await;
        assert_eq!(frames(resume(&late, id, 0).await).await, all[0]);
        assert!(resume(&late, id, 2).await.is_empty());
        assert_eq!(late.resume(id, "alice", 3).await.unwrap_err(), ResumeError::Lost);
        assert_eq!(late.stop(id, "alice").await, Ok(false));
        assert_eq!(server.ask(&["XLEN", &format!("ragwire:{{{id}}}:frames")]), ["2"]);
        drop((sink, here));
    })
    .await;
}

/// Stopping a turn of a dead host ends the turn, even if it has no readers.
#[tokio::test]
async fn a_stop_of_a_turn_whose_host_is_dead_ends_it() {
    within(async {
        let server = Server::new();
        let dying = runtime();
        let options = server.options();
        let id = dying
            .spawn(async move {
                let here = Journal::redis(options, ragwire::turn::JournalLimits::default())
                    .await
                    .unwrap();
                let (sink, turn, id) = begun(journaled(&here)).await;
                send(&here, &sink, id, 0, "a").await;
                std::mem::forget((sink, turn, here));
                id
            })
            .await
            .unwrap();
        tokio::task::spawn_blocking(move || drop(dying)).await.unwrap();
        let there = impatient_journal(&server).await;
        assert_eq!(there.stop(id, "alice").await, Ok(false));
        let read = frames(resume(&there, id, 0).await).await;
        assert_eq!(texts_and_end(&read), (vec!["a"], "interrupted".to_owned()));
    })
    .await;
}

/// A host was suspended for longer than its lease: the server refuses what it sends then, and its
/// own readers fail.
#[tokio::test]
async fn a_host_that_resumes_too_late_is_refused() {
    within(async {
        let server = Server::new();
        let options = server.options().connect_timeout(Duration::from_millis(100));
        let (id_sender, id_receiver) = mpsc::channel();
        let (wake, sleep) = mpsc::channel::<()>();
        let zombie = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let here = Journal::redis(options, ragwire::turn::JournalLimits::default())
                    .await
                    .unwrap();
                let (sink, turn, id) = begun(journaled(&here)).await;
                send(&here, &sink, id, 0, "a").await;
                id_sender.send(id).unwrap();
                // Blocks the whole host.
                sleep.recv().unwrap();
                sink.send("b").await.unwrap();
                let read = frames(turn).await;
                assert!(sink.send("c").await.is_err());
                read
            })
        });
        let id = tokio::task::spawn_blocking(move || id_receiver.recv().unwrap())
            .await
            .unwrap();
        let there = impatient_journal(&server).await;
        let read = frames(resume(&there, id, 0).await).await;
        assert_eq!(texts_and_end(&read), (vec!["a"], "interrupted".to_owned()));
        wake.send(()).unwrap();
        let zombie = tokio::task::spawn_blocking(move || zombie.join().unwrap())
            .await
            .unwrap();
        assert_eq!(texts_and_end(&zombie), (vec!["a"], "lost".to_owned()));
        assert_eq!(frames(resume(&there, id, 0).await).await, read);
        assert_eq!(server.ask(&["XLEN", &format!("ragwire:{{{id}}}:frames")]), ["2"]);
    })
    .await;
}

/// If the server loses data, the producer notices it when it renews its lease, and readers within a
/// lease.
#[tokio::test]
async fn a_server_that_loses_data_fails_the_turn() {
    within(async {
        for (command, elsewhere) in [
            ("FLUSHALL", "unknown_turn"),
            ("DEL turn", "unknown_turn"),
            ("DEL frames", "lost"),
        ] {
            let server = Server::new();
            let (here, there, late) = server.journals().await;
            let (sink, turn, id) = begun(journaled(&here)).await;
            send(&there, &sink, id, 0, "a").await;
            send(&there, &sink, id, 1, "b").await;
            let reader = resume(&there, id, 0).await;
            match command.split_once(' ') {
                None => server.ask(&[command]),
                Some((del, key)) => server.ask(&[del, &format!("ragwire:{{{id}}}:{key}")]),
            };
            // The producer has to send or to refresh its lease.
            let lost = (vec!["a", "b"], "lost".to_owned());
            assert_eq!(texts_and_end(&frames(turn).await), lost, "{command}");
            assert_eq!(texts_and_end(&frames(reader).await), lost, "{command}");
            assert!(sink.send("c").await.is_err());
            // A new reader gets neither an empty success nor a stream with a gap.
            assert_eq!(
                late.resume(id, "alice", 1).await.unwrap_err().code(),
                elsewhere,
                "{command}"
            );
            match late.resume(id, "alice", 0).await {
                Ok(turn) => assert_eq!(texts_and_end(&frames(turn).await), (vec![], "lost".to_owned())),
                Err(error) => assert_eq!(error.code(), elsewhere, "{command}"),
            }
            assert_eq!(here.stop(id, "alice").await, Ok(false));
        }
    })
    .await;
}

/// If the server loses some frames of a turn, it still takes the next one. The turn ends when its host
/// renews the lease, and no reader takes what follows the gap for the rest.
#[tokio::test]
async fn a_turn_that_has_lost_frames_on_the_server_ends() {
    within(async {
        let server = Server::new();
        let (here, there, late) = server.journals().await;
        let (sink, turn, id) = begun(journaled(&here)).await;
        send(&there, &sink, id, 0, "a").await;
        send(&there, &sink, id, 1, "b").await;
        let reader = resume(&there, id, 0).await;
        // The mirror has both frames.
        let ahead = resume(&there, id, 2).await;
        assert_eq!(
            server.ask(&["XDEL", &format!("ragwire:{{{id}}}:frames"), "1-2"]),
            ["1"]
        );
        sink.send("c").await.unwrap();
        let whole = frames(turn).await;
        assert_eq!(texts_and_end(&whole), (vec!["a", "b", "c"], "lost".to_owned()));
        assert_eq!(frames(reader).await, whole);
        assert_eq!(frames(ahead).await, whole[2..]);
        match late.resume(id, "alice", 0).await {
            Ok(turn) => assert_eq!(texts_and_end(&frames(turn).await), (vec!["a"], "lost".to_owned())),
            Err(error) => assert_eq!(error, ResumeError::Lost),
        }
    })
    .await;
}

/// If the server is away for longer than a lease, but not longer than the limit, the turn is only
/// delayed.
#[tokio::test]
async fn a_broken_connection_only_delays_the_turn() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        let (sink, turn, id) = begun(journaled(&here)).await;
        let reader = spawn(frames(resume(&there, id, 0).await));
        let live = spawn(frames(turn));
        for at in 0..30 {
            sink.send(format!("{at};")).await.unwrap();
            if at % 3 == 0 {
                server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
            }
            if at % 10 == 5 {
                server.ask(&["SCRIPT", "FLUSH"]);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sink.finish(Metadata::default()).unwrap();
        let live = live.await.unwrap();
        let (texts, end) = texts_and_end(&live);
        let expected: String = (0..30).map(|at| format!("{at};")).collect();
        assert_eq!((texts.concat(), &*end), (expected, "completed"));
        assert_eq!(reader.await.unwrap(), live);
    })
    .await;
}

/// The reply to an append was lost, and another host has ended the turn: readers elsewhere have a frame
/// that the turn's own host does not know. On that host they get the turn's end, and not an end that
/// leaves nothing to read.
#[tokio::test]
async fn a_reader_ahead_of_the_turns_own_host_gets_the_end_of_the_turn() {
    within(async {
        let server = Server::new();
        let (here, there) = (server.journal().await, server.journal().await);
        let (sink, turn, id) = begun(journaled(&here)).await;
        send(&there, &sink, id, 0, "a").await;
        // At once: the host renews its lease at any time.
        let script = "redis.call('XADD', KEYS[1], '1-2', 'f', ARGV[1]) redis.call('XADD', KEYS[1], '2-3', 'f', ARGV[2]) \
            redis.call('HSET', KEYS[2], 'epoch', 2, 'over', 1)";
        let [stream, hash] = ["frames", "turn"].map(|name| format!("ragwire:{{{id}}}:{name}"));
        let text = "{\"index\":1,\"text\":\"b\"}\n";
        let end = r#"{"index":2,"end":"failed","error":{"code":"interrupted","message":"It died.","recoverable":true},"metadata":{"citations":[],"tools_used":[]}}"#;
        server.ask(&["EVAL", script, "2", &stream, &hash, text, &format!("{end}\n")]);
        sink.send("c").await.unwrap();
        assert_eq!(texts_and_end(&frames(turn).await), (vec!["a"], "lost".to_owned()));
        for journal in [&here, &there] {
            let rest = frames(resume(journal, id, 2).await).await;
            assert_eq!(texts_and_end(&rest), (vec![], "interrupted".to_owned()));
            assert!(resume(journal, id, 3).await.is_empty());
        }
    })
    .await;
}
