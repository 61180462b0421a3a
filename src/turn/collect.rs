//! The turn as one value, for responses that do not stream.

use std::collections::VecDeque;
use std::future::poll_fn;

use tokio::time::Instant;

use super::id::TurnId;
use super::rejected::Rejected;
use super::{Source, Turn};
use crate::event::Event;
use crate::failure::Failure;
use crate::frame::{End, Frame};
use crate::time::Timestamp;
use crate::utf8;

/// The maximum size of a collected turn: a response that does not stream has to fit in memory.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
const MAX_EVENTS: usize = 10_000;

/// A complete turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Collected {
    /// The turn.
    pub id: TurnId,
    /// The events in order.
    pub events: Vec<(Event, Option<Timestamp>)>,
    /// The answer, without what `retract` events took back; incomplete if the turn failed.
    pub text: String,
    /// The end of the turn.
    pub end: End,
    /// Whether a journal had only a [`Snapshot`](crate::Snapshot) of the first frames. `events` and
    /// `text` then begin at the turn's beginning, wherever it was resumed, with the last state of
    /// each step. The metadata of the end counts the events that are missing.
    pub is_compact: bool,
}

impl Collected {
    /// Returns the turn if it completed, so that a response that does not stream gets an HTTP
    /// status.
    ///
    /// # Errors
    ///
    /// Returns [`Rejected`] if the turn failed or was stopped.
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
    #[error("turn is too large to collect: more than 4 MiB of text or 10000 events")]
    TooLarge,
    /// The journal has dropped a part of the turn.
    #[error("the journal has dropped a part of the turn")]
    Gone,
}

impl CollectError {
    /// Returns a stable name for programs.
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
    /// A failed turn is collected like any other; check its `end`, or call
    /// [`Collected::into_result`]. A turn that was resumed contains the requested frames and the
    /// end, or what [`Collected::is_compact`] describes if the journal has dropped those frames.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the turn, which disconnects as [`Turn`] describes.
    ///
    /// # Errors
    ///
    /// Returns [`CollectError::TooLarge`] for a turn of more than 4 MiB of text or 10,000 events,
    /// which is then dropped. Returns [`CollectError::Gone`] if a [`Journal`](super::Journal)
    /// dropped frames before they were read and has no snapshot of them.
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
                let mut frames = VecDeque::new();
                while poll_fn(|cx| {
                    let now = Instant::now().into_std();
                    reader.queue.poll_frames(cx, now, &mut frames)
                })
                .await
                {
                    for frame in frames.drain(..) {
                        collected.add(frame.into_frame())?;
                    }
                }
            }
            Source::Log(mut cursor) => {
                // A turn that was resumed past its end has no frame left to wait for, but the end
                // is known.
                let mut seen = cursor.end().filter(|_| cursor.is_finished()).map(Frame::End);
                while !matches!(seen, Some(Frame::End(_))) {
                    let frames = poll_fn(|cx| cursor.poll_frames(cx)).await;
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
            Frame::Event { event, timestamp } => {
                if let Event::Retract(retract) = &event {
                    utf8::keep_chars(&mut self.text, retract.kept);
                }
                self.events.push((event, timestamp));
            }
            Frame::Text(text) => self.text.push_str(&text),
            Frame::End(end) => {
                let missing = self.end.metadata.events_dropped;
                self.end = end;
                self.end.metadata.events_dropped += missing;
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
