//! One frame of a log, shared by all readers.

use std::sync::Arc;

use bytes::BytesMut;

use crate::event::{Event, InputRequested};
use crate::frame::{End, Frame};
use crate::json;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::turn::queue::{QueuedFrame, TimedEvent};
use crate::utf8::pieces;
use crate::wire::ndjson::Ndjson;
use crate::wire::{Decode, EncodeError, Encoder, Limits, Wire};

/// Approximate bytes of a record besides its content: its place in the log, the counters that its
/// readers share, and what an allocation costs.
pub(super) const RECORD_BYTES: usize = 64;

/// The wire of a record that is stored as bytes. It has no limits, since the queue has checked the
/// frames.
fn wire() -> Ndjson {
    let unlimited = Limits::default()
        .max_line_bytes(usize::MAX)
        .max_trailer_bytes(usize::MAX);
    Ndjson::default().limits(unlimited)
}

/// A frame that any number of readers share. Each kind has an allocation of its own size: most
/// frames are texts, and an end is much larger than an event.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Text(Arc<str>),
    Event(Arc<TimedEvent>),
    End(Arc<End>),
    Snapshot(Arc<Snapshot>),
}

/// Returns an encoder that writes records as lines, the first one with this index.
pub(super) fn line_encoder(index: u64) -> Encoder {
    let mut encoder = wire().encoder();
    encoder.seek(index);
    encoder
}

impl Record {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn frame(frame: Frame) -> Self {
        match frame {
            Frame::Text(text) => Self::Text(text.into()),
            Frame::Event { event, timestamp } => Self::Event(Arc::new(TimedEvent { event, timestamp })),
            Frame::End(end) => Self::End(Arc::new(end)),
            Frame::Snapshot(snapshot) => Self::Snapshot(Arc::from(snapshot)),
        }
    }

    /// Gives a frame of the queue to `take`, in records that the log stores: a text is cut into pieces
    /// of at most `max_text_bytes`.
    pub(super) fn split(frame: QueuedFrame, max_text_bytes: usize, mut take: impl FnMut(Self)) {
        match frame {
            QueuedFrame::Text(text) if text.len() <= max_text_bytes => take(Self::Text(text)),
            QueuedFrame::Text(text) => {
                pieces(&text, max_text_bytes).for_each(|piece| take(Self::text(piece)));
            }
            QueuedFrame::Event(event) => take(Self::Event(event)),
            QueuedFrame::End(end) => take(Self::End(end)),
        }
    }

    pub(super) fn to_frame(&self) -> Frame {
        match self {
            Self::Text(text) => Frame::Text((**text).to_owned()),
            Self::Event(record) => {
                let TimedEvent { event, timestamp } = (**record).clone();
                Frame::Event { event, timestamp }
            }
            Self::End(end) => Frame::End((**end).clone()),
            Self::Snapshot(snapshot) => Frame::Snapshot(Box::new((**snapshot).clone())),
        }
    }

    pub(super) fn as_end(&self) -> Option<&End> {
        match self {
            Self::End(end) => Some(end),
            Self::Text(_) | Self::Event(_) | Self::Snapshot(_) => None,
        }
    }

    /// Returns the event and its timestamp, if this is an event.
    pub(super) fn as_event(&self) -> Option<(&Event, Option<Timestamp>)> {
        match self {
            Self::Event(record) => Some((&record.event, record.timestamp)),
            Self::Text(_) | Self::End(_) | Self::Snapshot(_) => None,
        }
    }

    /// Returns the question to a human and its timestamp, if this is one.
    pub(super) fn as_question(&self) -> Option<(&InputRequested, Option<Timestamp>)> {
        match self.as_event()? {
            (Event::InputRequested(question), timestamp) => Some((question, timestamp)),
            _ => None,
        }
    }

    pub(super) fn encode(&self, encoder: &mut Encoder, out: &mut BytesMut) -> Result<(), EncodeError> {
        match self {
            Self::Text(text) => encoder.text(text, out),
            Self::Event(record) => encoder.event(&record.event, record.timestamp, out),
            Self::End(end) => encoder.end(end, out),
            Self::Snapshot(snapshot) => encoder.snapshot(snapshot, out),
        }
    }

    /// Returns the record as a line of the wire [`Ndjson`].
    #[cfg(any(feature = "redis", test))]
    pub(super) fn to_line(&self, index: u64) -> BytesMut {
        let (mut encoder, mut out) = (line_encoder(index), BytesMut::new());
        // Cannot fail: the queue has checked every event before.
        let _ = self.encode(&mut encoder, &mut out);
        out
    }

    /// Reads the line of the frame with this index; `None` if it is damaged or has another index.
    pub(super) fn from_line(index: u64, line: &[u8]) -> Option<Self> {
        let mut decoder = wire().decoder();
        decoder.feed(line);
        let frame = decoder.next()?.ok()?;
        (decoder.next_index() == Some(index + 1)).then(|| Self::frame(frame))
    }

    /// Returns the size that the limits count: what the record takes in memory, estimated.
    pub(super) fn bytes(&self) -> usize {
        let content = match self {
            Self::Text(text) => text.len(),
            Self::Event(record) => size_of::<TimedEvent>() + json::estimate(&record.event),
            Self::End(end) => {
                size_of::<End>()
                    + json::estimate(&end.metadata.citations)
                    + json::estimate(&end.metadata.extra)
            }
            // Sinks cannot send a snapshot, and a log stores its own elsewhere.
            Self::Snapshot(_) => size_of::<Snapshot>(),
        };
        RECORD_BYTES + content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Search;
    use crate::failure::Failure;
    use crate::metadata::Metadata;

    #[test]
    fn a_frame_survives_encoding() {
        let long = "\u{1}\"\u{1d}\u{2028}\u{1f600}".repeat(50_000);
        let event = Search::new("bm25").query(&long).into();
        let metadata = Metadata::default().with("note", long.as_str());
        for frame in [
            Frame::Text("\u{1}".repeat(4096)),
            Frame::Event {
                event,
                timestamp: None,
            },
            Frame::End(End::completed(metadata)),
            Frame::End(End::stopped()),
            Frame::End(End::failed(Failure::new("cut", long.clone()))),
        ] {
            for index in [0, 7, u64::from(u32::MAX)] {
                let line = Record::frame(frame.clone()).to_line(index);
                assert_eq!(Record::from_line(index, &line).unwrap().to_frame(), frame);
                assert!(
                    Record::from_line(index + 1, &line).is_none(),
                    "it has another index"
                );
                assert!(
                    Record::from_line(index, &line[..line.len() / 2]).is_none(),
                    "it is cut"
                );
            }
        }
        assert!(Record::from_line(0, b"\n").is_none());
    }
}
