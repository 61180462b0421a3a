//! A resumed reader gets the exact suffix: from every index, on every wire, while the turn runs and
//! after its end.

use super::*;
use crate::journals::{end, turns};

#[tokio::test(start_paused = true)]
async fn from_every_index_of_a_finished_turn() {
    let journal = in_memory();
    for (items, ends) in turns() {
        let (sink, turn) = journaled(&journal)
            .commit_on(Commit::deadline(Duration::ZERO))
            .channel();
        let turn = turn.commit().await.unwrap();
        for item in items {
            sink.send(item).await.unwrap();
            settle().await;
        }
        end(&sink, ends);
        let id = turn.id();
        let frames = frames(turn).await;
        for wire in wires() {
            let (whole, offsets) = encoded(&wire, &frames);
            for (from, offset) in offsets.iter().enumerate() {
                let turn = resume(&journal, id, from as u64).await;
                assert_eq!(turn.is_empty(), from == frames.len());
                turn.supports(&wire).unwrap();
                let suffix = bytes(turn, &wire).await;
                assert_eq!(show(&suffix), show(&whole[*offset..]), "{wire:?} from {from}");
            }
            let next = frames.len() as u64;
            let ahead = journal.resume(id, "", next + 1).await.unwrap_err();
            assert_eq!(ahead, ResumeError::Ahead { next });
        }
    }
}

/// A reader, the bytes that it has got, and how many it had after each frame.
struct Live {
    wire: usize,
    from: usize,
    stream: TurnStream,
    read: Vec<u8>,
    lengths: Vec<(usize, usize)>,
}

async fn pump(readers: &mut [Live], recorded: usize) {
    for reader in readers {
        // Frames before `from` take polls without bytes, so this polls until the stream waits.
        while let Ok(Some(chunk)) = tokio::time::timeout(Duration::from_nanos(1), reader.stream.next()).await
        {
            reader.read.extend_from_slice(&chunk);
        }
        reader.lengths.push((recorded, reader.read.len()));
    }
}

#[tokio::test(start_paused = true)]
async fn from_every_index_of_a_running_turn() {
    let journal = in_memory();
    let wires = wires();
    for (items, ends) in turns() {
        let (sink, turn) = journaled(&journal)
            .commit_on(Commit::deadline(Duration::ZERO))
            .channel();
        let turn = turn.commit().await.unwrap();
        let id = turn.id();
        let mut readers = Vec::new();
        let mut recorded = 0;
        for item in items {
            for (at, wire) in wires.iter().enumerate() {
                for from in 0..=recorded {
                    readers.push(Live {
                        wire: at,
                        from,
                        stream: resume(&journal, id, from as u64).await.stream(wire),
                        read: Vec::new(),
                        lengths: Vec::new(),
                    });
                }
            }
            let ahead = journal.resume(id, "", recorded as u64 + 1).await.unwrap_err();
            assert_eq!(
                ahead,
                ResumeError::Ahead {
                    next: recorded as u64
                }
            );
            pump(&mut readers, recorded).await;
            // The first half of a character does not make a frame.
            let is_frame = !matches!(&item, Item::Bytes(bytes) if bytes.ends_with(b"\x9f"));
            sink.send(item).await.unwrap();
            settle().await;
            recorded += usize::from(is_frame);
            pump(&mut readers, recorded).await;
        }
        end(&sink, ends);
        let frames = frames(turn).await;
        assert_eq!(frames.len(), recorded + 1);
        pump(&mut readers, recorded + 1).await;
        let encoded: Vec<_> = wires.iter().map(|wire| encoded(wire, &frames)).collect();
        for mut reader in readers {
            let (whole, offsets) = &encoded[reader.wire];
            let what = format!("{:?} from {}", wires[reader.wire], reader.from);
            assert!(reader.stream.is_finished(), "{what}");
            assert_eq!(reader.stream.next().await, None, "{what}");
            assert_eq!(show(&reader.read), show(&whole[offsets[reader.from]..]), "{what}");
            // The reader was live: after each frame it had exactly the frames that were recorded.
            for (recorded, length) in reader.lengths {
                assert_eq!(length, offsets[recorded] - offsets[reader.from], "{what}");
            }
        }
    }
}

/// Texts that arrive together are one frame for all readers, and a long text is split into the same
/// frames on every wire.
#[tokio::test(start_paused = true)]
async fn texts_are_merged_and_split_before_they_are_numbered() {
    let journal = in_memory();
    let turn = journaled(&journal)
        .start(|sink| play(&[Text("a"), Text("b"), Wait(1), Text("c"), Text("d")], sink))
        .commit()
        .await
        .unwrap();
    // The first frame leaves at once.
    let texts: Vec<Frame> = frames(turn).await.into_iter().take(3).collect();
    let text = |text: &str| Frame::Text(text.into());
    assert_eq!(texts, [text("a"), text("b"), text("cd")]);

    // Each character takes six bytes in its escaped form; the wire's limits would split the text
    // into frames of one character.
    let hostile = "\u{1}".repeat(10_000);
    let turn = journaled(&journal)
        .start({
            let hostile = hostile.clone();
            move |sink: Sink| async move {
                sink.send(&hostile).await?;
                Ok::<_, SendError>(Metadata::default())
            }
        })
        .commit()
        .await
        .unwrap();
    let id = turn.id();
    let narrow = Limits::default().max_line_bytes(1);
    for from in 0..3 {
        let read = bytes(resume(&journal, id, from).await, &Sse::default().limits(narrow)).await;
        let mut decoder = Sse::default().decoder();
        decoder.feed(&read);
        let texts =
            (from..3).map(|at| Frame::Text("\u{1}".repeat(if at < 2 { 4096 } else { 10_000 - 8192 })));
        let mut expected: Vec<Frame> = texts.collect();
        expected.push(frames(resume(&journal, id, 3).await).await.remove(0));
        assert_eq!(decoder.by_ref().map(Result::unwrap).collect::<Vec<_>>(), expected);
        assert_eq!(decoder.next_index(), Some(4));
    }
}

/// A placeholder replaces an event that does not fit the wire: a missing number would look like a
/// lost frame.
#[tokio::test(start_paused = true)]
async fn an_event_that_does_not_fit_keeps_its_number() {
    let journal = in_memory();
    let turn = journaled(&journal)
        .start(|sink: Sink| async move {
            sink.send("a").await?;
            sink.send(Custom::new("own", &"x".repeat(40_000)).unwrap())
                .await?;
            Ok::<_, SendError>(Metadata::default())
        })
        .commit()
        .await
        .unwrap();
    let id = turn.id();
    let narrow = Ndjson::default().limits(Limits::default().max_line_bytes(1));
    let mut whole = show(&bytes(turn, &narrow).await);
    let moment = whole.rfind(",\"timestamp\"").unwrap();
    let rest = whole.split_off(moment);
    assert_eq!(
        whole,
        "{\"index\":0,\"text\":\"a\"}\n{\"index\":1,\"event\":\"dropped\",\"data\":\"event_too_large\"}\n\
         {\"index\":2,\"end\":\"completed\",\"metadata\":{\"citations\":[],\"tools_used\":[]}"
    );
    let mut expected = whole + &rest;
    for from in 1..3 {
        expected = expected.split_once('\n').unwrap().1.to_owned();
        let suffix = show(&bytes(resume(&journal, id, from).await, &narrow).await);
        assert_eq!(suffix, expected);
    }
    // On a wire without numbered frames, the end counts the missing events.
    let forge = Forge::default().limits(Limits::default().max_line_bytes(100));
    let whole = show(&bytes(resume(&journal, id, 0).await, &forge).await);
    let suffix = show(&bytes(resume(&journal, id, 2).await, &forge).await);
    assert_eq!(whole.matches("\"events_dropped\":1").count(), 1);
    assert!(whole.len() > suffix.len() && whole.ends_with(&suffix));
    // The largest event that a journaled turn accepts fits the default limits of both ragwire
    // wires.
    let (sink, turn) = journaled(&journal).channel();
    let length = 255 * 1024 - r#"{"event":"own","data":""}"#.len();
    let event = |length: usize| Custom::new("own", &"x".repeat(length)).unwrap();
    assert_eq!(
        sink.send(event(length + 1)).await.unwrap_err().code(),
        "event_too_large"
    );
    sink.send(event(length)).await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    let turn = turn.commit().await.unwrap();
    let id = turn.id();
    for wire in [
        Box::new(Sse::default()) as Box<dyn Wire>,
        Box::new(Ndjson::default()),
    ] {
        assert!(bytes(resume(&journal, id, 0).await, &wire).await.len() > length);
    }
}

/// Returns the frames of a reader that loses its connection after each chunk and resumes, if `both`
/// on the other wire.
async fn reconnecting(journal: Journal, id: TurnId, mut on_sse: bool, both: bool) -> Vec<Frame> {
    let mut seen: Vec<Frame> = Vec::new();
    loop {
        let turn = resume(&journal, id, seen.len() as u64).await;
        let mut decoder: Box<dyn Decode> = if on_sse {
            Box::new(Sse::default().decoder())
        } else {
            Box::new(Ndjson::default().decoder())
        };
        let mut stream = if on_sse {
            turn.stream(&Sse::default())
        } else {
            turn.stream(&Ndjson::default())
        };
        decoder.feed(&stream.next().await.unwrap());
        seen.extend(decoder.by_ref().map(Result::unwrap));
        if matches!(seen.last(), Some(Frame::End(_))) {
            return seen;
        }
        on_sse ^= both;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_that_reconnect_after_each_chunk_miss_nothing() {
    let journal = in_memory();
    for round in 0..40 {
        let (sink, turn) = journaled(&journal).channel();
        let id = turn.id();
        let producer = std::thread::spawn(move || {
            for at in 0..60 {
                sink.blocking_send(format!("{at} ")).unwrap();
                if at % 7 == round % 7 {
                    sink.blocking_send(Search::new(at.to_string())).unwrap();
                    std::thread::yield_now();
                }
            }
            sink.finish(Metadata::default()).unwrap();
        });
        let turn = turn.commit().await.unwrap();
        let mut readers = tokio::task::JoinSet::new();
        for (on_sse, both) in [(true, false), (false, false), (true, true), (false, true)] {
            readers.spawn(reconnecting(journal.clone(), id, on_sse, both));
        }
        let seen = readers.join_all().await;
        let first = frames(turn).await;
        for seen in seen {
            assert_eq!(seen, first);
        }
        producer.join().unwrap();
        let texts = first.iter().filter_map(|frame| match frame {
            Frame::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let expected: String = (0..60).map(|at| format!("{at} ")).collect();
        assert_eq!(texts.collect::<String>(), expected);
    }
}
