//! The turn as one value: the non-streaming twin of every route.

use std::future::poll_fn;

use tokio::time::Instant;

use super::{Rejected, Source, Turn, TurnId};
use crate::event::Event;
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::time::Timestamp;

/// Most bytes of text, and most events, that a collected turn holds: a response that nobody streams has to fit in memory whole.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
const MAX_EVENTS: usize = 10_000;

/// A whole turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Collected {
    /// The turn.
    pub id: TurnId,
    /// What was reported, in order.
    pub events: Vec<(Event, Option<Timestamp>)>,
    /// The answer. Where the turn failed, what there was of it.
    pub text: String,
    /// How it ended.
    pub end: End,
    /// Whether a journal had its first frames as a [`Snapshot`](crate::Snapshot) only. Then `events` and `text` are those of the turn from
    /// its beginning, whatever was asked for, with the last state of each step, and the metadata of the end count what is left out.
    pub is_compact: bool,
}

impl Collected {
    /// The turn, if it completed; else what a response without a stream says of it.
    ///
    /// # Errors
    ///
    /// [`Rejected`] for a turn that failed or was stopped.
    pub fn into_result(self) -> Result<Self, Rejected> {
        match Failure::of(&self.end.status) {
            None => Ok(self),
            Some(failure) => Err(Rejected {
                id: self.id,
                failure,
                retry_after: None,
            }),
        }
    }
}

/// Why a turn was not collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The turn is larger than 4 MiB of text or 10,000 events.
    #[error("turn is too large to be collected")]
    TooLarge,
    /// A part of the turn is kept no longer.
    #[error("a part of the turn is no longer kept")]
    Gone,
}

impl CollectError {
    /// Stable machine word for this error.
    pub fn code(self) -> &'static str {
        match self {
            Self::TooLarge => "turn_too_large",
            Self::Gone => "gone",
        }
    }
}

impl Turn {
    /// Reads the turn to its end instead of streaming it.
    ///
    /// A failed turn is collected like any other; look at its `end`. Of a turn that was resumed there is what was asked for, and the end;
    /// where that is not kept any more, what [`Collected::is_compact`] says.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the turn: the orchestrator is cancelled, as [`Turn`] says.
    ///
    /// # Errors
    ///
    /// [`CollectError::TooLarge`]; the turn is dropped then. [`CollectError::Gone`] where a [`Journal`](super::Journal) dropped frames
    /// before they were read, and has no snapshot of them.
    pub async fn collect(self) -> Result<Collected, CollectError> {
        let mut collected = Collected {
            id: self.id(),
            events: Vec::new(),
            text: String::new(),
            end: End::default(),
            is_compact: false,
        };
        match self.source {
            Source::Queue(reader) => {
                while let Some(frame) =
                    poll_fn(|cx| reader.queue.poll_frame(cx, Instant::now().into_std())).await
                {
                    collected.add(frame)?;
                }
            }
            Source::Log(mut reading) => {
                // Behind the end there is nothing to wait for, but it is known.
                let mut seen = reading.end().filter(|_| reading.is_over()).map(Frame::End);
                while !matches!(seen, Some(Frame::End(_))) {
                    let frames = poll_fn(|cx| reading.poll_frames(cx)).await;
                    for frame in frames.ok_or(CollectError::Gone)? {
                        if let Some(before) = seen.replace(frame) {
                            collected.add(before)?;
                        }
                    }
                }
                if let Some(end) = seen {
                    collected.add(end)?;
                }
            }
        }
        Ok(collected)
    }
}

impl Collected {
    fn add(&mut self, frame: Frame) -> Result<(), CollectError> {
        match frame {
            Frame::Event { event, timestamp } => self.events.push((event, timestamp)),
            Frame::Text(text) => self.text.push_str(&text),
            Frame::End(end) => {
                let left_out = self.end.metadata.events_dropped;
                self.end = end;
                self.end.metadata.events_dropped += left_out;
            }
            Frame::Snapshot(snapshot) => {
                self.events = snapshot.events;
                self.text = snapshot.text;
                self.end.metadata.events_dropped = snapshot.events_dropped;
                self.is_compact = true;
            }
        }
        if self.text.len() > MAX_TEXT_BYTES || self.events.len() > MAX_EVENTS {
            return Err(CollectError::TooLarge);
        }
        Ok(())
    }
}
