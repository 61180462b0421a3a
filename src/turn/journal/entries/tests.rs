//! The entries of a log compared with a plain vector that drops nothing.

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::record::RECORD_BYTES;
use super::*;
use crate::event::Search;
use crate::frame::Frame;
use crate::metadata::Metadata;
use crate::time::Timestamp;
use crate::turn::queue::TimedEvent;
use crate::wire::Limits;

/// An operation on a log.
#[derive(Clone, Debug)]
enum Operation {
    Text(String),
    Event(String),
    Trim(usize),
    /// The first index and the number of bytes.
    Read(u64, usize),
    CheckIndex(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => "[a-z\u{e9}\n]{1,40}".prop_map(Operation::Text),
        2 => "[a-z]{0,20}".prop_map(Operation::Event),
        1 => (0..2000_usize).prop_map(Operation::Trim),
        3 => (0..40_u64, 0..600_usize).prop_map(|(from, bytes)| Operation::Read(from, bytes)),
        2 => (0..40_u64).prop_map(Operation::CheckIndex),
    ]
}

/// Every frame with its size, the number of dropped frames, and the snapshot of those.
#[derive(Default)]
struct Model {
    frames: Vec<(Frame, usize)>,
    base: usize,
    head: DroppedHead,
}

impl Model {
    fn bytes(&self) -> usize {
        let stored: usize = self.frames[self.base..].iter().map(|(_, bytes)| bytes).sum();
        stored + self.head.bytes()
    }

    fn trim(&mut self, max_bytes: usize) {
        self.head.enforce_limit(max_bytes);
        while self.bytes() > max_bytes && self.base + 1 < self.frames.len() {
            let (frame, _) = &self.frames[self.base];
            self.head.add(&Record::frame(frame.clone()), max_bytes);
            self.base += 1;
        }
    }

    fn read(&self, from: u64, max_bytes: usize) -> Option<Vec<Frame>> {
        let from = from as usize;
        if from < self.base {
            return None;
        }
        let mut read = Vec::new();
        let mut taken = 0;
        for (frame, bytes) in self.frames.iter().skip(from) {
            if taken >= max_bytes {
                break;
            }
            taken += bytes;
            read.push(frame.clone());
        }
        Some(read)
    }

    fn check_index(&self, from: u64) -> Result<(), ResumeError> {
        let (base, next) = (self.base as u64, self.frames.len() as u64);
        if from < base {
            Err(ResumeError::Gone { base })
        } else if from > next {
            Err(ResumeError::Ahead { next })
        } else {
            Ok(())
        }
    }
}

fn push(entries: &mut LogEntries, model: &mut Model, frame: Frame) {
    let record = Record::frame(frame.clone());
    let bytes = record.bytes();
    entries.push(record, bytes);
    model.frames.push((frame, bytes));
}

proptest! {
    #[test]
    fn entries_behave_like_a_vector_that_drops_its_head(operations in vec(operation(), 0..60), ends in any::<bool>()) {
        let (mut entries, mut model) = (LogEntries::default(), Model::default());
        for operation in operations {
            match operation {
                Operation::Text(text) => push(&mut entries, &mut model, Frame::Text(text)),
                Operation::Event(tool) => {
                    let event = Search::new(tool).into();
                    push(&mut entries, &mut model, Frame::Event { event, timestamp: None });
                }
                Operation::Trim(max_bytes) => {
                    entries.trim(max_bytes);
                    model.trim(max_bytes);
                }
                Operation::Read(from, max_bytes) => {
                    let read = entries.read(from, max_bytes);
                    let frames = read.as_ref().ok().map(|records| records.iter().map(Record::to_frame).collect::<Vec<_>>());
                    prop_assert_eq!(frames, model.read(from, max_bytes));
                    if let Err(dropped) = read {
                        prop_assert_eq!(dropped.snapshot, model.head.snapshot(model.base as u64));
                    }
                }
                Operation::CheckIndex(from) => prop_assert_eq!(entries.check_index(from), model.check_index(from)),
            }
            prop_assert_eq!(entries.bytes(), model.bytes());
            prop_assert_eq!(entries.is_folded(), model.head.snapshot(0).is_some());
            prop_assert_eq!(entries.next(), model.frames.len() as u64);
            prop_assert_eq!(entries.end(), None);
        }
        if ends {
            let end = End::completed(Metadata::default());
            push(&mut entries, &mut model, Frame::End(end.clone()));
            entries.trim(0);
            prop_assert_eq!(entries.end(), Some(end));
            prop_assert_eq!(entries.next(), model.frames.len() as u64);
        }
    }
}

proptest! {
    /// Sealing changes the size of the frames and nothing else.
    #[test]
    fn sealed_entries_behave_like_records(
        frames in vec(operation(), 0..40),
        trimmed in 0..4000_usize,
        from in 0..40_u64,
        max_bytes in 0..2000_usize,
        later in 0..4000_usize,
    ) {
        let (mut entries, mut sealed) = (LogEntries::default(), LogEntries::default());
        let mut both = |frame: Frame| {
            for entries in [&mut entries, &mut sealed] {
                let record = Record::frame(frame.clone());
                let bytes = record.bytes();
                entries.push(record, bytes);
            }
        };
        for operation in frames {
            match operation {
                Operation::Text(text) => both(Frame::Text(text)),
                Operation::Event(tool) => {
                    let event = Search::new(tool).into();
                    both(Frame::Event { event, timestamp: Some(Timestamp::from_micros(7)) });
                }
                Operation::Trim(_) | Operation::Read(..) | Operation::CheckIndex(_) => {}
            }
        }
        both(Frame::End(End::completed(Metadata::default().with("score", 0.1))));
        entries.trim(trimmed);
        sealed.trim(trimmed);
        let records = sealed.bytes();
        sealed.seal();
        prop_assert!(matches!(sealed.stored, Stored::Sealed(_)));
        prop_assert!(sealed.bytes() < records);
        let frames = |entries: &LogEntries| entries.read(from, max_bytes).map(|read| {
            read.iter().map(Record::to_frame).collect::<Vec<_>>()
        });
        prop_assert_eq!(frames(&sealed), frames(&entries));
        prop_assert_eq!(sealed.end(), entries.end());
        prop_assert!(sealed.has_ended());
        prop_assert_eq!((sealed.base(), sealed.next()), (entries.base(), entries.next()));
        prop_assert_eq!(sealed.check_index(from), entries.check_index(from));
        // A sealed turn that has to drop frames becomes records again. It may have to drop none where
        // records have to.
        entries.trim(later);
        sealed.trim(later);
        if matches!(sealed.stored, Stored::Records(_)) {
            prop_assert_eq!(frames(&sealed), frames(&entries));
            prop_assert_eq!((sealed.base(), sealed.bytes()), (entries.base(), entries.bytes()));
        }
        let next = entries.next();
        sealed.evict();
        prop_assert_eq!((sealed.bytes(), sealed.base(), sealed.next()), (0, next, next));
        prop_assert_eq!(sealed.check_index(next), Err(ResumeError::Gone { base: next }));
        prop_assert!(sealed.has_ended());
    }
}

#[test]
fn the_size_of_a_record_is_what_it_takes() {
    let count = |frame| Record::frame(frame).bytes() - RECORD_BYTES;
    assert_eq!(count(Frame::Text("\u{e9}a".into())), 3);
    let event = Search::new("bm25").into();
    assert_eq!(
        count(Frame::Event {
            event,
            timestamp: None
        }),
        size_of::<TimedEvent>() + r#"{"event":"search","tool":"bm25"}"#.len()
    );
    let quote = "q".repeat(2 * Limits::MAX_TRAILER_BYTES);
    let metadata = Metadata::default().with("note", quote);
    assert!(count(Frame::End(End::completed(metadata))) > 2 * Limits::MAX_TRAILER_BYTES);
}

fn entries(frames: &[Frame]) -> LogEntries {
    let mut entries = LogEntries::default();
    for frame in frames {
        let record = Record::frame(frame.clone());
        let bytes = record.bytes();
        entries.push(record, bytes);
    }
    entries
}

#[test]
fn frames_of_exactly_the_limit_are_kept() {
    let texts = ["a", "b", "c"].map(|text| Frame::Text(text.into()));
    let bytes = entries(&texts).bytes();
    for (max_bytes, base) in [(bytes, 0), (bytes - 1, 1)] {
        let mut entries = entries(&texts);
        entries.head = DroppedHead::Discarded;
        entries.trim(max_bytes);
        assert_eq!(entries.base(), base, "{max_bytes}");
    }
}

#[test]
fn a_read_ends_with_the_frame_that_reaches_its_size() {
    let texts = ["a", "b", "c"].map(|text| Frame::Text(text.into()));
    let bytes = entries(&texts[..1]).bytes();
    for (max_bytes, count) in [(1, 1), (bytes, 1), (bytes + 1, 2), (2 * bytes, 2), (3 * bytes, 3)] {
        let read = entries(&texts).read(0, max_bytes).unwrap();
        assert_eq!(read.len(), count, "{max_bytes}");
    }
}

#[test]
fn a_log_continues_after_a_snapshot() {
    let snapshot = Snapshot::new(7).text("Forty");
    let entries = LogEntries::after(snapshot.clone());
    assert_eq!(
        (entries.base(), entries.next(), entries.is_folded()),
        (7, 7, true)
    );
    assert_eq!(entries.snapshot().unwrap().into_snapshot(), snapshot);
}

#[test]
fn a_question_is_resolved_by_its_answer_or_by_the_end() {
    use crate::event::{InputRequested, InputResolved};
    let event = |event: Event| Frame::Event {
        event,
        timestamp: None,
    };
    let asked = || event(InputRequested::new("r", "text", "?").into());
    let resolved = |id: &str| event(InputResolved::new(id).into());
    for (frames, is_resolved) in [
        (vec![asked()], false),
        (vec![asked(), resolved("other")], false),
        (vec![asked(), resolved("r")], true),
        (vec![asked(), Frame::End(End::stopped())], true),
    ] {
        assert_eq!(entries(&frames).is_resolved("r"), is_resolved, "{frames:?}");
    }
}

#[test]
fn the_size_of_an_ended_turn_is_that_of_its_lines_and_their_ends() {
    let frames = [Frame::Text("a".into()), Frame::End(End::stopped())];
    let mut sealed = entries(&frames);
    sealed.seal();
    let lines = (0..)
        .zip(&frames)
        .map(|(index, frame)| Record::frame(frame.clone()).to_line(index).len());
    assert_eq!(
        sealed.bytes(),
        lines.sum::<usize>() + frames.len() * size_of::<u32>()
    );
}

#[test]
fn the_size_of_an_end_is_that_of_its_metadata() {
    use crate::metadata::Citation;
    let bytes = |metadata: Metadata| Record::frame(Frame::End(End::completed(metadata))).bytes();
    let citation = Citation::new("d", "c", "q", "bm25");
    let citations = serde_json::to_string(&[&citation]).unwrap().len();
    let bare = bytes(Metadata::default());
    assert_eq!(bare, RECORD_BYTES + size_of::<End>() + "[]".len() + "{}".len());
    assert_eq!(
        bytes(Metadata::default().citations(vec![citation]).with("n", 1)),
        bare - "[]{}".len() + citations + r#"{"n":1}"#.len()
    );
}
