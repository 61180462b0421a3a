//! A resumed reader gets the exact suffix on every host: from every index, on every wire, while the
//! turn runs and after its end.

use futures_util::StreamExt;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use ragwire::turn::{JournalLimits, ResumeError, TurnStream};
use ragwire::{Item, Metadata};

use super::*;
use crate::journals::{acts, bytes, check, encoded, end, show, turns, wires};

#[tokio::test]
async fn from_every_index_on_every_wire_and_host() {
    within(async {
        let server = Server::new();
        let (here, there, late) = server.journals().await;
        let wires = wires();
        for (items, ends) in turns() {
            let (sink, turn, id) = begun(journaled(&here)).await;
            let mut live: Vec<(usize, u64, TurnStream)> = Vec::new();
            let mut recorded = 0;
            for item in items {
                for (at, wire) in wires.iter().enumerate() {
                    for from in 0..=recorded {
                        live.push((at, from, resume(&there, id, from).await.stream(wire)));
                    }
                }
                assert_eq!(
                    there.resume(id, "alice", recorded + 1).await.unwrap_err(),
                    ResumeError::Ahead { next: recorded }
                );
                // The first half of a character does not make a frame.
                let is_frame = !matches!(&item, Item::Bytes(bytes) if bytes.ends_with(b"\x9f"));
                sink.send(item).await.unwrap();
                recorded += u64::from(is_frame);
                while there.resume(id, "alice", recorded).await.is_err() {
                    tokio::task::yield_now().await;
                }
            }
            end(&sink, ends);
            let whole = frames(turn).await;
            assert_eq!(whole.len() as u64, recorded + 1);
            let encoded: Vec<_> = wires.iter().map(|wire| encoded(wire, &whole)).collect();
            for (at, from, stream) in live {
                let read = stream.collect::<Vec<_>>().await.concat();
                let (bytes, offsets) = &encoded[at];
                let expected = show(&bytes[offsets[from as usize]..]);
                assert_eq!(show(&read), expected, "{:?} from {from}", wires[at]);
            }
            // A host that has not read the turn yet.
            for (wire, (whole, offsets)) in wires.iter().zip(&encoded) {
                for (from, offset) in offsets.iter().enumerate() {
                    let turn = resume(&late, id, from as u64).await;
                    assert_eq!(turn.is_empty(), from + 1 == offsets.len());
                    turn.supports(wire).unwrap();
                    let suffix = bytes(turn, wire).await;
                    assert_eq!(show(&suffix), show(&whole[*offset..]), "{wire:?} from {from}");
                }
            }
            let next = recorded + 1;
            assert_eq!(
                late.resume(id, "alice", next + 1).await.unwrap_err(),
                ResumeError::Ahead { next }
            );
        }
    })
    .await;
}

/// The same test as for the journal in memory.
#[tokio::test]
async fn the_journal_behaves_like_a_vector() {
    within(async {
        let server = Server::new();
        let mut runner = TestRunner::default();
        for max_turn_bytes in [1 << 20, 1 << 20, 1500, 1000, 600, 300, 100, 1] {
            let limits = JournalLimits::default().max_turn_bytes(max_turn_bytes);
            let mut hosts = Vec::new();
            for _ in 0..3 {
                hosts.push(server.journal_within(limits).await);
            }
            for _ in 0..3 {
                let acts = acts().new_tree(&mut runner).unwrap().current();
                check(&hosts[0], &hosts, acts).await;
            }
        }
    })
    .await;
}

/// Frames that are sent at once reach the server in a few batches, and every reader on every host
/// in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fast_turn_is_the_same_on_every_host() {
    within(async {
        let server = Server::new();
        let (here, there, third) = server.journals().await;
        let (sink, turn, id) = begun(journaled(&here)).await;
        let mut readers = Vec::new();
        for journal in [&here, &there, &there, &third] {
            readers.push(spawn(frames(resume(journal, id, 0).await)));
        }
        for at in 0..2_000 {
            sink.send(format!("{at} ")).await.unwrap();
            if at % 7 == 0 {
                sink.send(ragwire::event::Search::new(at.to_string()))
                    .await
                    .unwrap();
            }
        }
        sink.finish(Metadata::default()).unwrap();
        let first = frames(turn).await;
        let texts = first.iter().filter_map(|frame| match frame {
            Frame::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let expected: String = (0..2_000).map(|at| format!("{at} ")).collect();
        assert_eq!(texts.collect::<String>(), expected);
        for reader in readers {
            assert_eq!(reader.await.unwrap(), first);
        }
    })
    .await;
}
