//! Snapshots of dropped frames: on every wire that can carry one, from every index, while the turn
//! runs and after its end.

use ragwire::event::{Source, Sources, Thinking, ToolCall, ToolResult};
use ragwire::wire::Decode;
use ragwire::{Snapshot, Timestamp};
use serde_json::json;

use super::*;

/// The items of a turn whose snapshot is smaller than its frames: many small texts, and steps with
/// several events.
fn turn() -> Vec<Item<'static>> {
    let mut turn: Vec<Item> = Vec::new();
    let step = |event: Event| Item::from(event);
    for at in 0..16_u32 {
        let call = (at % 2).to_string();
        turn.push(step(Search::new("bm25").query(format!("why {at}?")).into()));
        turn.push(step(ToolCall::new("t", json!({"q": at})).call_id(&call).into()));
        turn.push(format!("{at} \u{1e}").into());
        turn.push(step(ToolResult::new("t", json!([at])).call_id(&call).into()));
        turn.push(step(Thinking::new(format!("thought {at}")).round(at / 8).into()));
        turn.extend(["a", "\u{e9} ", "b\n"].map(Item::from));
        turn.push(step(Custom::new("own", &json!({"at": at})).unwrap().into()));
    }
    let source = |chunk| Source::new(chunk, "d", "quote", vec![1]);
    turn.push(step(Sources::new(vec![source("c")]).into()));
    turn.push(step(Sources::new(vec![source("c"), source("e")]).into()));
    turn.push(" the end".into());
    turn
}

/// Returns the step that an event of [`turn`] belongs to.
fn step(event: &Event) -> String {
    match event {
        Event::ToolCall(call) => format!("call {:?}", call.call_id),
        Event::ToolResult(result) => format!("result {:?}", result.call_id),
        Event::Thinking(thought) => format!("thought {:?}", thought.round),
        // The later of the two `sources` events contains all documents of the earlier one.
        event => event.name().to_owned(),
    }
}

/// Computes the snapshot of the first `count` frames.
fn compact(frames: &[Frame], count: usize) -> Snapshot {
    let (mut text, mut steps, mut dropped) = (String::new(), Vec::new(), 0);
    for frame in &frames[..count] {
        match frame {
            Frame::Text(piece) => text.push_str(piece),
            Frame::Event { event, timestamp } => {
                let step = step(event);
                let before = steps.len();
                steps.retain(|(older, _)| *older != step);
                dropped += (before - steps.len()) as u64;
                steps.push((step, (event.clone(), *timestamp)));
            }
            Frame::End(_) | Frame::Snapshot(_) => unreachable!("neither is ever dropped"),
        }
    }
    let events = steps.into_iter().map(|(_, event)| event).collect();
    Snapshot::new(count as u64)
        .events(events)
        .text(text)
        .events_dropped(dropped)
}

fn frame(snapshot: Snapshot) -> Frame {
    Frame::Snapshot(Box::new(snapshot))
}

/// Computes what a reader of these frames shows.
fn shown(frames: &[Frame]) -> (Vec<(Event, Option<Timestamp>)>, String) {
    let begun = frames
        .iter()
        .rposition(|frame| matches!(frame, Frame::Snapshot(_)));
    let (mut whole, begun) = match begun.map(|at| (&frames[at], at)) {
        Some((Frame::Snapshot(snapshot), at)) => {
            let events = snapshot.events.iter().cloned();
            let events = events.map(|(event, timestamp)| Frame::Event { event, timestamp });
            let text = Some(Frame::Text(snapshot.text.clone()));
            (events.chain(text).collect::<Vec<_>>(), at + 1)
        }
        _ => (Vec::new(), 0),
    };
    whole.extend(
        frames[begun..]
            .iter()
            .filter(|frame| !matches!(frame, Frame::End(_)))
            .cloned(),
    );
    let Snapshot { events, text, .. } = compact(&whole, whole.len());
    (events, text)
}

/// Encodes a snapshot and the frames after it for a wire without numbered frames: as plain events
/// and one text.
fn expanded(wire: &impl Wire, snapshot: &Snapshot, rest: &[Frame]) -> Vec<u8> {
    let events = snapshot.events.iter().cloned();
    let mut frames: Vec<Frame> = events
        .map(|(event, timestamp)| Frame::Event { event, timestamp })
        .collect();
    frames.push(Frame::Text(snapshot.text.clone()));
    frames.extend_from_slice(rest);
    if let Some(Frame::End(end)) = frames.last_mut() {
        end.metadata.events_dropped += snapshot.events_dropped;
    }
    encoded(wire, &frames).0
}

/// Encodes frames, the first of which has the index `from`.
fn numbered(wire: &impl Wire, from: u64, frames: &[Frame]) -> Vec<u8> {
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    assert!(encoder.seek(from));
    for frame in frames {
        encoder.encode(frame, &mut out).unwrap();
    }
    out.to_vec()
}

fn gone(base: u64) -> Result<(), ResumeError> {
    Err(ResumeError::Gone { base })
}

/// A running turn and its frames so far.
struct Run {
    sink: Sink,
    id: TurnId,
    frames: Vec<Frame>,
    live: TurnStream,
    decoder: Box<dyn Decode>,
}

impl Run {
    async fn begin(journal: &Journal) -> Self {
        let (sink, turn) = journaled(journal)
            .commit_on(Commit::deadline(Duration::ZERO))
            .channel();
        let turn = turn.commit().await.unwrap();
        Self {
            sink,
            id: turn.id(),
            frames: Vec::new(),
            live: turn.stream(&Ndjson::default()),
            decoder: Box::new(Ndjson::default().decoder()),
        }
    }

    async fn send(&mut self, item: Item<'static>) {
        self.sink.send(item).await.unwrap();
        self.keep_up().await;
    }

    async fn finish(&mut self) {
        self.sink
            .finish(Metadata::default().tools_used(["bm25"]))
            .unwrap();
        self.keep_up().await;
    }

    /// Reads the frames that are ready. This reader never falls behind, so it gets every frame.
    async fn keep_up(&mut self) {
        settle().await;
        let chunk = self.live.next().await.unwrap();
        self.decoder.feed(&chunk);
        self.frames.extend(self.decoder.by_ref().map(Result::unwrap));
        assert!(!matches!(self.frames.last(), Some(Frame::Snapshot(_))));
    }
}

/// Reads the bytes that are ready now.
async fn ready(stream: &mut TurnStream) -> Vec<u8> {
    let mut read = Vec::new();
    while let Ok(Some(chunk)) = tokio::time::timeout(Duration::from_nanos(1), stream.next()).await {
        read.extend_from_slice(&chunk);
    }
    read
}

/// Returns how many frames have been dropped, according to the snapshot that a reader from index 0
/// gets.
async fn base(run: &Run, journal: &Journal) -> u64 {
    let read = ready(&mut resume(journal, run.id, 0).await.stream(&Ndjson::default())).await;
    let mut decoder = Ndjson::default().decoder();
    decoder.feed(&read);
    match decoder.next() {
        Some(Ok(Frame::Snapshot(snapshot))) => snapshot.frames,
        _ => 0,
    }
}

/// After each frame of a turn that drops its head, for several limits: a reader from a dropped
/// frame gets the snapshot and exactly the remaining frames.
#[tokio::test(start_paused = true)]
async fn from_every_index_of_a_running_turn() {
    let mut bases = Vec::new();
    for limit in [6_000, 6_600, 7_300] {
        let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(limit));
        let mut run = Run::begin(&journal).await;
        for item in turn() {
            run.send(item).await;
            assert!(journal.bytes() <= limit);
            let base = base(&run, &journal).await;
            bases.push(base);
            // The next test reads from all indexes of a finished turn; this one from those around
            // the head.
            let next = run.frames.len() as u64;
            let mut indexes = vec![0, base / 2, base.saturating_sub(1), base, base + 1, next - 1];
            indexes.retain(|from| *from < next);
            indexes.dedup();
            for from in indexes {
                let turn = resume(&journal, run.id, from).await;
                turn.supports(&Ndjson::default()).unwrap();
                let read = ready(&mut turn.stream(&Ndjson::default())).await;
                let mut expected = run.frames[from.max(base) as usize..].to_vec();
                if from < base {
                    expected.insert(0, frame(compact(&run.frames, base as usize)));
                }
                let expected = numbered(&Ndjson::default(), from, &expected);
                assert_eq!(show(&read), show(&expected), "from {from} of {base}");
                let mut decoder = Ndjson::default().decoder();
                decoder.feed(&read);
                assert_eq!(decoder.next_index(), Some(next));
                let seen: Vec<Frame> = run.frames[..from as usize]
                    .iter()
                    .cloned()
                    .chain(decoder.map(Result::unwrap))
                    .collect();
                assert_eq!(shown(&seen), shown(&run.frames));
            }
        }
    }
    bases.dedup();
    assert!(
        bases.len() > 60 && bases.contains(&0),
        "the head is dropped frame by frame: {bases:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn on_every_wire_of_a_finished_turn() {
    let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(6_000));
    let mut run = Run::begin(&journal).await;
    for item in turn() {
        run.send(item).await;
    }
    run.finish().await;
    let base = base(&run, &journal).await;
    let (snapshot, rest) = (compact(&run.frames, base as usize), &run.frames[base as usize..]);
    assert!(base > 10 && rest.len() > 10 && snapshot.events_dropped > 0);
    let with_snapshot = [&[frame(snapshot.clone())], rest].concat();
    let failed = [Frame::End(End::failed(ResumeError::Gone { base }.failure()))];
    for wire in wires() {
        let name = wire.name();
        for from in 0..run.frames.len() as u64 {
            let turn = resume(&journal, run.id, from).await;
            let supported = turn.supports(&wire);
            let read = show(&bytes(turn, &wire).await);
            let (expected, bytes) = match name {
                "sse" | "ndjson" if from < base => (Ok(()), numbered(&wire, from, &with_snapshot)),
                "sse" | "ndjson" => (Ok(()), numbered(&wire, from, &run.frames[from as usize..])),
                "forge" | "eve" => (gone(base), encoded(&wire, &failed).0),
                _ if from == 0 => (Ok(()), expanded(&wire, &snapshot, rest)),
                // A reader that has some of the frames must not get them again.
                _ => (gone(base), encoded(&wire, &failed).0),
            };
            assert_eq!(
                (supported, read),
                (expected, show(&bytes)),
                "{wire:?} from {from}"
            );
        }
    }
    // If the wire's limits do not fit the snapshot, `supports` returns an error and the stream
    // fails.
    let narrow = Ndjson::default().limits(Limits::default().max_trailer_bytes(200));
    let turn = resume(&journal, run.id, 1).await;
    assert_eq!(turn.supports(&narrow), gone(base));
    assert_eq!(
        show(&bytes(turn, &narrow).await),
        show(&numbered(&narrow, 1, &failed))
    );

    for from in 0..run.frames.len() as u64 {
        let collected = resume(&journal, run.id, from).await.collect().await.unwrap();
        let seen: &[Frame] = if from < base {
            &with_snapshot
        } else {
            &run.frames[from as usize..]
        };
        let texts = |frames: &[Frame]| {
            let texts = frames.iter().filter_map(|frame| match frame {
                Frame::Text(text) => Some(text.clone()),
                Frame::Snapshot(snapshot) => Some(snapshot.text.clone()),
                _ => None,
            });
            texts.collect::<String>()
        };
        assert_eq!((collected.text, collected.is_compact), (texts(seen), from < base));
        let left_out = if from < base { snapshot.events_dropped } else { 0 };
        assert_eq!(collected.end.metadata.events_dropped, left_out);
        let mut events = if from < base {
            snapshot.events.clone()
        } else {
            Vec::new()
        };
        events.extend(seen.iter().filter_map(|frame| match frame {
            Frame::Event { event, timestamp } => Some((event.clone(), *timestamp)),
            _ => None,
        }));
        assert_eq!(collected.events, events);
    }
}

/// A reader that falls behind while it reads: on a wire with numbered frames, a snapshot replaces
/// what it has; on other wires, its stream fails.
#[tokio::test(start_paused = true)]
async fn a_reader_that_falls_behind() {
    for wire in wires() {
        let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(6_000));
        let mut run = Run::begin(&journal).await;
        let mut items = turn().into_iter();
        for item in items.by_ref().take(5) {
            run.send(item).await;
        }
        let mut slow = resume(&journal, run.id, 0).await.stream(&wire);
        let never = resume(&journal, run.id, 0).await.stream(&wire);
        let mut read = ready(&mut slow).await;
        for item in items.by_ref().take(65) {
            run.send(item).await;
        }
        let first = base(&run, &journal).await;
        read.extend(ready(&mut slow).await);
        for item in items {
            run.send(item).await;
        }
        run.finish().await;
        let base = base(&run, &journal).await;
        assert!(
            5 < first && first < 70 && 70 < base && base < run.frames.len() as u64,
            "{first} {base}"
        );
        read.extend(slow.collect::<Vec<_>>().await.concat());
        let never = never.collect::<Vec<_>>().await.concat();

        let snapshot = compact(&run.frames, base as usize);
        let rest = &run.frames[base as usize..];
        let failed = [Frame::End(End::failed(ResumeError::Gone { base }.failure()))];
        let (expected, from_scratch) = match wire.name() {
            "sse" | "ndjson" => {
                let replaced = frame(compact(&run.frames, first as usize));
                // The reader fell behind twice.
                let restarted = [&[frame(snapshot)], rest].concat();
                let begun = [&run.frames[..5], &[replaced], &run.frames[first as usize..70]].concat();
                (
                    encoded(&wire, &[begun, restarted.clone()].concat()).0,
                    numbered(&wire, 0, &restarted),
                )
            }
            name => {
                let cut = encoded(&wire, &[&run.frames[..5], &failed[..]].concat()).0;
                let gone = encoded(&wire, &failed).0;
                (
                    cut,
                    if ["forge", "eve"].contains(&name) {
                        gone
                    } else {
                        expanded(&wire, &snapshot, rest)
                    },
                )
            }
        };
        assert_eq!(show(&read), show(&expected), "{wire:?}");
        assert_eq!(show(&never), show(&from_scratch), "{wire:?}");
    }
}

/// A browser resumes with the last ID that it has received, which may be that of a snapshot.
#[tokio::test(start_paused = true)]
async fn a_reader_resumes_after_a_snapshot() {
    let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(6_000));
    let mut run = Run::begin(&journal).await;
    for item in turn() {
        run.send(item).await;
    }
    let base = base(&run, &journal).await;
    let mut decoder = Sse::default().decoder();
    let all = ready(&mut resume(&journal, run.id, 0).await.stream(&Sse::default())).await;
    let first = show(&all).find("\n\n").unwrap() + 2;
    assert!(show(&all[..first]).starts_with(&format!("id: {}\nevent: snapshot\n", base - 1)));
    decoder.feed(&all[..first]);
    assert!(matches!(decoder.next(), Some(Ok(Frame::Snapshot(_)))));
    let next = decoder.next_index().unwrap();
    assert_eq!(next, base);
    let rest = ready(&mut resume(&journal, run.id, next).await.stream(&Sse::default())).await;
    assert_eq!(show(&rest), show(&all[first..]));
}

/// The snapshot of the dropped frames counts towards the limit, takes at most a quarter of it, and
/// is discarded above that.
#[tokio::test(start_paused = true)]
async fn snapshots_are_bounded() {
    let limit = 8_000;
    let journal = Journal::in_memory(JournalLimits::default().max_turn_bytes(limit));
    let mut run = Run::begin(&journal).await;
    let mut known = Vec::new();
    for at in 0..600 {
        run.send(format!("{at:05}").into()).await;
        assert!(journal.bytes() <= limit);
        let turn = journal.resume(run.id, "", 0).await;
        known.push(
            turn.map(|turn| turn.supports(&Ndjson::default()))
                .map_err(ResumeError::code),
        );
    }
    let discarded = known.iter().position(Result::is_err).unwrap();
    assert_eq!(known[..discarded], vec![Ok(Ok(())); discarded]);
    assert_eq!(known[discarded..], vec![Err("gone"); 600 - discarded]);
    // Each frame takes 69 bytes, of which 5 remain in the snapshot's text.
    assert!(discarded > 300, "discarded after {discarded}");
    // After that, frames take all bytes again.
    let Err(ResumeError::Gone { base }) = journal.resume(run.id, "", 0).await.map(drop) else {
        panic!("the first frame is still stored");
    };
    assert_eq!((600 - base) as usize, limit / (64 + 5));
    let exact = ready(&mut resume(&journal, run.id, base).await.stream(&Ndjson::default())).await;
    assert_eq!(
        show(&exact),
        show(&numbered(&Ndjson::default(), base, &run.frames[base as usize..]))
    );
    drop(run);

    // The bytes of all turns are bounded as well: the turn that grows gets fewer, and an expired
    // turn leaves nothing.
    let journal = Journal::in_memory(
        JournalLimits::default()
            .max_bytes(8_000)
            .keep(Duration::from_secs(60)),
    );
    let mut run = Run::begin(&journal).await;
    for at in 0..200 {
        run.send(format!("{at:05}").into()).await;
        assert!(journal.bytes() <= 8_000);
    }
    run.finish().await;
    let slow = resume(&journal, run.id, 0).await;
    slow.supports(&Sse::default()).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(slow.collect().await.unwrap_err().code(), "gone");
    drop(run);
    assert_eq!((journal.turns(), journal.bytes()), (0, 0));
}
