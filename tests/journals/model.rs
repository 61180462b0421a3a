//! A journal compared with a plain vector that drops nothing: on any host, a resumed turn is the
//! exact rest of the vector, or its reader gets an error.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::Custom;
use ragwire::turn::{Disconnect, Journal, ResumeError};
use ragwire::{Commit, Frame, Metadata, Sink, Snapshot, Turn, TurnId};

use super::{frames, spawn};

/// An operation on a turn.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Text(String),
    Event(String),
    /// A reader resumes at this index and reads to the end.
    Read(u64),
}

/// Generates the operations on a turn, and whether it is stopped at the end.
pub(crate) fn acts() -> impl Strategy<Value = (Vec<Act>, bool)> {
    let act = prop_oneof![
        3 => "[a-z\u{e9}\n]{1,60}".prop_map(Act::Text),
        2 => "[a-z]{0,60}".prop_map(Act::Event),
        3 => (0..24_u64).prop_map(Act::Read),
    ];
    (vec(act, 0..24), any::<bool>())
}

/// A reader, which returns the frames that it has got.
type Reader = tokio::task::JoinHandle<Vec<Frame>>;

/// Plays `acts` on a turn of `writer` and compares every reader of `readers`, which include the
/// writer's own host, with the vector. The limit of a turn may be so small that its head is
/// dropped; all hosts must agree on the first stored frame.
pub(crate) async fn check(writer: &Journal, readers: &[Journal], (acts, is_stopped): (Vec<Act>, bool)) {
    let (sink, turn) = Turn::builder()
        .journal(writer)
        .owner("alice")
        .on_disconnect(Disconnect::run_to_end())
        .commit_on(Commit::deadline(Duration::ZERO))
        .channel();
    let turn = turn.commit().await.unwrap();
    let id = turn.id();
    let mut reads: Vec<(u64, Reader)> = Vec::new();
    let mut sent: Vec<Frame> = Vec::new();
    for act in acts {
        match act {
            Act::Text(text) => {
                sink.send(&text).await.unwrap();
                sent.push(Frame::Text(text));
                arrives(readers, id, sent.len() as u64).await;
            }
            Act::Event(content) => {
                let event = Custom::new("own", &content).unwrap();
                sink.send(event.clone()).await.unwrap();
                sent.push(Frame::Event {
                    event: event.into(),
                    timestamp: None,
                });
                arrives(readers, id, sent.len() as u64).await;
            }
            Act::Read(from) => {
                let next = sent.len() as u64;
                for journal in readers {
                    match journal.resume(id, "alice", from).await {
                        Ok(turn) => {
                            assert!(from <= next);
                            reads.push((from, spawn(frames(turn))));
                        }
                        Err(ResumeError::Ahead { next: reported }) => {
                            assert_eq!((reported, from > next), (next, true))
                        }
                        // The snapshot was too large for such a small limit as well.
                        Err(ResumeError::Gone { base }) => assert!(from < base && base <= next),
                        Err(other) => panic!("{other}"),
                    }
                    assert_eq!(
                        journal.resume(id, "mallory", from).await.unwrap_err().code(),
                        "unknown_turn"
                    );
                }
            }
        }
    }
    finish(writer, readers, id, &sink, is_stopped).await;
    // The end is a frame as well.
    arrives(readers, id, sent.len() as u64 + 1).await;
    let base = base(readers, id).await;
    // From the first stored frame on, every host has all frames and the same end.
    let mut common_end = None;
    for journal in readers {
        let rest = frames(journal.resume(id, "alice", base).await.unwrap()).await;
        let (end, before) = rest.split_last().unwrap();
        let expected = sent.get(base as usize..).unwrap_or_default();
        assert_eq!(plain(before), plain(expected));
        assert_eq!(common_end.get_or_insert_with(|| end.clone()), end);
        let next = sent.len() as u64 + 1;
        assert!(journal.resume(id, "alice", next).await.unwrap().is_empty());
        assert_eq!(
            journal.resume(id, "alice", next + 1).await.unwrap_err(),
            ResumeError::Ahead { next }
        );
    }
    let end = common_end.unwrap();
    drop(turn);
    for (from, read) in reads {
        let read = read.await.unwrap();
        let (last, before) = read.split_last().unwrap();
        let next = follow(&sent, from, before);
        if *last == end {
            assert_eq!(next, sent.len() as u64);
        } else {
            // The reader was too slow for the limit: its stream fails without a gap.
            let Frame::End(end) = last else { panic!("{last:?}") };
            assert_eq!(end.status.as_str(), "failed", "{end:?}");
        }
    }
}

/// Asserts that the frames that a reader got from the index `from` on, without its end, are those
/// that were sent, or a snapshot of all frames before a later one. Returns the index after them.
fn follow(sent: &[Frame], from: u64, read: &[Frame]) -> u64 {
    let mut next = from;
    for frame in read {
        if let Frame::Snapshot(snapshot) = frame {
            assert!(
                next <= snapshot.frames,
                "the snapshot ends before the reader's last frame"
            );
            next = snapshot.frames;
            assert_eq!(**snapshot, replaced(&sent[..next as usize], snapshot));
        } else {
            assert_eq!(
                plain(std::slice::from_ref(frame)),
                plain(&sent[next as usize..][..1])
            );
            next += 1;
        }
    }
    next
}

/// Computes the snapshot of the first frames of a turn: all text, and the newest of its events,
/// which have one name; the events before it are counted. The timestamp is copied from `received`.
fn replaced(sent: &[Frame], received: &Snapshot) -> Snapshot {
    let text = sent.iter().filter_map(|frame| match frame {
        Frame::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let mut events = sent.iter().rev().filter_map(|frame| match frame {
        Frame::Event { event, .. } => Some(event.clone()),
        _ => None,
    });
    let newest = events.next();
    let timestamp = received.events.first().and_then(|(_, timestamp)| *timestamp);
    Snapshot::new(sent.len() as u64)
        .events(newest.map(|event| (event, timestamp)).into_iter().collect())
        .text(text.collect::<String>())
        .events_dropped(events.count() as u64)
}

async fn finish(writer: &Journal, readers: &[Journal], id: TurnId, sink: &Sink, is_stopped: bool) {
    if is_stopped {
        let last = readers.last().unwrap_or(writer);
        assert_eq!(last.stop(id, "alice").await, Ok(true));
    } else {
        sink.finish(Metadata::default().tools_used(["bm25"])).unwrap();
    }
    for journal in readers {
        assert_eq!(journal.stop(id, "alice").await, Ok(false));
    }
}

/// Waits until every host has `next` frames.
async fn arrives(readers: &[Journal], id: TurnId, next: u64) {
    for journal in readers {
        while let Err(error) = journal.resume(id, "alice", next).await {
            assert!(matches!(error, ResumeError::Ahead { .. }), "{error}");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
}

/// Returns the index of the first stored frame, on which all hosts must agree.
async fn base(readers: &[Journal], id: TurnId) -> u64 {
    let mut bases = Vec::new();
    for journal in readers {
        bases.push(match journal.resume(id, "alice", 0).await {
            Err(ResumeError::Gone { base }) => base,
            Ok(turn) => match frames(turn).await.first() {
                Some(Frame::Snapshot(snapshot)) => snapshot.frames,
                _ => 0,
            },
            Err(other) => panic!("{other}"),
        });
    }
    bases.dedup();
    assert_eq!(bases.len(), 1, "{bases:?}");
    bases[0]
}

/// Returns the frames without the timestamps of their events.
fn plain(frames: &[Frame]) -> Vec<Frame> {
    let plain = |frame: &Frame| match frame {
        Frame::Event { event, .. } => Frame::Event {
            event: event.clone(),
            timestamp: None,
        },
        frame => frame.clone(),
    };
    frames.iter().map(plain).collect()
}
