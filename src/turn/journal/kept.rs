//! The frames of one turn as they are kept: a vector that loses its head, and remembers what the head came to. It knows no lock, no
//! clock and no reader.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::BytesMut;

use super::error::ResumeError;
use super::fold::{Fold, Held, Past};
use crate::event::{Event, InputRequested};
use crate::frame::{End, Frame};
use crate::json;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::wire::ndjson::Ndjson;
use crate::wire::{EncodeError, Encoder, Limits, Wire};

/// What a record takes besides its content, roughly: its place, its counters, and the fixed part of the frame.
const RECORD_BYTES: usize = 64;

/// A frame that any number of readers hold. Texts are most of a turn, so they do without the room of an event.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Text(Arc<str>),
    Frame(Arc<Frame>),
}

impl Record {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn frame(frame: Frame) -> Self {
        match frame {
            Frame::Text(text) => Self::Text(text.into()),
            frame => Self::Frame(Arc::new(frame)),
        }
    }

    pub(super) fn to_frame(&self) -> Frame {
        match self {
            Self::Text(text) => Frame::Text((**text).to_owned()),
            Self::Frame(frame) => (**frame).clone(),
        }
    }

    pub(super) fn as_end(&self) -> Option<&End> {
        match self {
            Self::Frame(frame) => match &**frame {
                Frame::End(end) => Some(end),
                _ => None,
            },
            Self::Text(_) => None,
        }
    }

    pub(super) fn as_question(&self) -> Option<(&InputRequested, Option<Timestamp>)> {
        match self {
            Self::Frame(frame) => match &**frame {
                Frame::Event {
                    event: Event::InputRequested(question),
                    timestamp,
                } => Some((question, *timestamp)),
                _ => None,
            },
            Self::Text(_) => None,
        }
    }

    pub(super) fn encode(&self, encoder: &mut Encoder, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Text(text) => encoder.text(text, out),
            Self::Frame(frame) => encoder.encode(frame, out),
        }
    }

    /// What the limits count.
    pub(super) fn bytes(&self) -> usize {
        let content = match self {
            Self::Text(text) => text.len(),
            Self::Frame(frame) => match &**frame {
                Frame::Text(text) => text.len(),
                // The queue has serialised it already, so it can be.
                Frame::Event { event, .. } => json::length(event).unwrap_or_default(),
                Frame::End(end) => {
                    let whole = Limits::default().max_trailer_bytes(usize::MAX);
                    let mut out = BytesMut::new();
                    let _ = Ndjson::default().limits(whole).encoder().end(end, &mut out);
                    out.len()
                }
                // Nobody sends one, and a log has a place of its own for what it dropped.
                Frame::Snapshot(_) => 0,
            },
        };
        RECORD_BYTES + content
    }
}

/// The frames from `base` on.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The index of the first frame that is there.
    base: u64,
    /// What there is of the frames before it.
    past: Past,
    /// With what each of them counts.
    records: VecDeque<(Record, usize)>,
    bytes: usize,
}

/// The frame that was asked for is not there any more.
#[derive(Debug, PartialEq)]
pub(super) struct Dropped {
    /// What there is in its place.
    pub(super) held: Option<Held>,
}

impl Kept {
    /// Nothing, where the first frame will be that of index `base`.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only a server keeps that"))]
    pub(super) fn starting_at(base: u64) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Nothing but what the frames before came to.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only a server keeps that"))]
    pub(super) fn after(snapshot: Snapshot) -> Self {
        Self {
            base: snapshot.frames,
            past: Past::Folded(Box::new(Fold::from(snapshot))),
            ..Self::default()
        }
    }

    /// The index of the first frame that is there.
    #[cfg_attr(not(feature = "redis"), allow(dead_code, reason = "only a server is told"))]
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// What all of it counts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.past.bytes()
    }

    /// The index that the next frame gets.
    pub(super) fn next(&self) -> u64 {
        self.base + self.records.len() as u64
    }

    /// Appends a frame, whose `bytes` were counted before.
    pub(super) fn push(&mut self, record: Record, bytes: usize) {
        self.bytes += bytes;
        self.records.push_back((record, bytes));
    }

    /// Drops frames from the head on until everything counts at most `max_bytes`, or one is left. What they came to counts as well, and is
    /// given up where it would take too much of that.
    pub(super) fn trim(&mut self, max_bytes: usize) {
        self.past.keep_within(max_bytes);
        while self.bytes() > max_bytes && self.records.len() > 1 {
            if let Some((record, bytes)) = self.records.pop_front() {
                self.bytes -= bytes;
                self.base += 1;
                self.past.drop_frame(&record, bytes, max_bytes);
            }
        }
    }

    /// Whether there is something of the frames that were dropped.
    pub(super) fn is_folded(&self) -> bool {
        matches!(self.past, Past::Folded(_))
    }

    /// What there is of the frames that were dropped.
    pub(super) fn held(&self) -> Option<Held> {
        self.past.held(self.base)
    }

    /// How the turn ended, if it did.
    pub(super) fn end(&self) -> Option<&End> {
        self.records.back()?.0.as_end()
    }

    /// The question of that id, and the index of the frame behind it.
    pub(super) fn question(&self, request_id: &str) -> Option<(&InputRequested, u64)> {
        self.records
            .iter()
            .zip(self.base + 1..)
            .find_map(|((record, _), next)| {
                let (question, _) = record.as_question()?;
                (question.request_id == request_id).then_some((question, next))
            })
    }

    /// Whether the turn is over, or the question of that id.
    pub(super) fn is_settled(&self, request_id: &str) -> bool {
        let resolves = |record: &Record| match record {
            Record::Frame(frame) => matches!(
                &**frame,
                Frame::Event { event: Event::InputResolved(resolved), .. } if resolved.request_id == request_id
            ),
            Record::Text(_) => false,
        };
        self.end().is_some() || self.records.iter().any(|(record, _)| resolves(record))
    }

    /// Whether every frame from `from` on is there; the next one will be.
    pub(super) fn place(&self, from: u64) -> Result<(), ResumeError> {
        let (base, next) = (self.base, self.next());
        match from {
            from if from < base => Err(ResumeError::Gone { base }),
            from if from > next => Err(ResumeError::Ahead { next }),
            _ => Ok(()),
        }
    }

    /// The frames from `from` on, until they count `max_bytes`: at least one, if there is one.
    pub(super) fn read(&self, from: u64, max_bytes: usize) -> Result<Vec<Record>, Dropped> {
        let skip = from.checked_sub(self.base);
        let skip = skip.ok_or_else(|| Dropped { held: self.held() })?;
        let skip = usize::try_from(skip)
            .unwrap_or(usize::MAX)
            .min(self.records.len());
        let mut taken = 0;
        let fits = |(_, bytes): &&(Record, usize)| {
            let fits = taken < max_bytes;
            taken += bytes;
            fits
        };
        let records = self.records.range(skip..).take_while(fits);
        Ok(records.map(|(record, _)| record.clone()).collect())
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
