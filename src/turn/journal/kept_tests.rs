//! The log against a plain vector that forgets nothing.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::event::Search;
use crate::metadata::Metadata;

/// What happens to a log.
#[derive(Clone, Debug)]
enum Act {
    Text(String),
    Event(String),
    Trim(usize),
    /// From where, and how many bytes.
    Read(u64, usize),
    Place(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => "[a-z\u{e9}\n]{1,40}".prop_map(Act::Text),
        2 => "[a-z]{0,20}".prop_map(Act::Event),
        1 => (0..2000_usize).prop_map(Act::Trim),
        3 => (0..40_u64, 0..600_usize).prop_map(|(from, bytes)| Act::Read(from, bytes)),
        2 => (0..40_u64).prop_map(Act::Place),
    ]
}

/// The vector: every frame there ever was, with what it counts, how many of them are gone, and what those come to.
#[derive(Default)]
struct Model {
    frames: Vec<(Frame, usize)>,
    base: usize,
    past: Past,
}

impl Model {
    fn bytes(&self) -> usize {
        let kept: usize = self.frames[self.base..].iter().map(|(_, bytes)| bytes).sum();
        kept + self.past.bytes()
    }

    fn trim(&mut self, max_bytes: usize) {
        self.past.keep_within(max_bytes);
        while self.bytes() > max_bytes && self.base + 1 < self.frames.len() {
            let (frame, bytes) = &self.frames[self.base];
            self.past
                .drop_frame(&Record::frame(frame.clone()), *bytes, max_bytes);
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

    fn place(&self, from: u64) -> Result<(), ResumeError> {
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

fn push(kept: &mut Kept, model: &mut Model, frame: Frame) {
    let record = Record::frame(frame.clone());
    let bytes = record.bytes();
    kept.push(record, bytes);
    model.frames.push((frame, bytes));
}

proptest! {
    #[test]
    fn it_is_a_vector_that_loses_its_head(acts in vec(act(), 0..60), ends in any::<bool>()) {
        let (mut kept, mut model) = (Kept::default(), Model::default());
        for act in acts {
            match act {
                Act::Text(text) => push(&mut kept, &mut model, Frame::Text(text)),
                Act::Event(tool) => {
                    let event = Search::new(tool).into();
                    push(&mut kept, &mut model, Frame::Event { event, timestamp: None });
                }
                Act::Trim(max_bytes) => {
                    kept.trim(max_bytes);
                    model.trim(max_bytes);
                }
                Act::Read(from, max_bytes) => {
                    let read = kept.read(from, max_bytes);
                    let frames = read.as_ref().ok().map(|records| records.iter().map(Record::to_frame).collect::<Vec<_>>());
                    prop_assert_eq!(frames, model.read(from, max_bytes));
                    if let Err(dropped) = read {
                        prop_assert_eq!(dropped.held, model.past.held(model.base as u64));
                    }
                }
                Act::Place(from) => prop_assert_eq!(kept.place(from), model.place(from)),
            }
            prop_assert_eq!(kept.bytes(), model.bytes());
            prop_assert_eq!(kept.is_folded(), model.past.held(0).is_some());
            prop_assert_eq!(kept.next(), model.frames.len() as u64);
            prop_assert_eq!(kept.end(), None);
        }
        if ends {
            let end = End::completed(Metadata::default());
            push(&mut kept, &mut model, Frame::End(end.clone()));
            kept.trim(0);
            prop_assert_eq!(kept.end(), Some(&end));
            prop_assert_eq!(kept.next(), model.frames.len() as u64);
        }
    }
}

#[test]
fn a_record_counts_its_content() {
    let count = |frame| Record::frame(frame).bytes() - RECORD_BYTES;
    assert_eq!(count(Frame::Text("\u{e9}a".into())), 3);
    let event = Search::new("bm25").into();
    assert_eq!(
        count(Frame::Event {
            event,
            timestamp: None
        }),
        r#"{"event":"search","tool":"bm25"}"#.len()
    );
    let quote = "q".repeat(2 * Limits::MAX_TRAILER_BYTES);
    let metadata = Metadata::default().with("note", quote);
    assert!(count(Frame::End(End::completed(metadata))) > 2 * Limits::MAX_TRAILER_BYTES);
}
