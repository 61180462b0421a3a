//! The order of frames in a stream: one table for every encoder and decoder.

/// The kinds of frames that [`Order`] distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// [`Frame::Event`](crate::Frame::Event)
    Event,
    /// [`Frame::Text`](crate::Frame::Text)
    Text,
    /// [`Frame::End`](crate::Frame::End)
    End,
    /// [`Frame::Snapshot`](crate::Frame::Snapshot)
    Snapshot,
}

/// The progress of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Nothing or only events so far.
    #[default]
    Events,
    /// The answer has begun.
    Text,
    /// The end has begun but is incomplete. Only a decoder sees this phase.
    Trailer,
    /// The stream has ended.
    Ended,
}

impl Phase {
    /// Returns `events`, `text`, `trailer` or `ended`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Text => "text",
            Self::Trailer => "trailer",
            Self::Ended => "ended",
        }
    }
}

/// The table that decides which frame may follow. Every encoder and every decoder uses it, so they
/// cannot disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    phase: Phase,
}

impl Order {
    /// Returns the current phase.
    pub fn phase(self) -> Phase {
        self.phase
    }

    /// Accepts the next frame and advances the phase.
    ///
    /// # Errors
    ///
    /// Returns [`OutOfOrder`] if the frame is not allowed in the current phase, which then does not
    /// change.
    pub fn accept(&mut self, frame: FrameKind) -> Result<(), OutOfOrder> {
        self.phase = match (self.phase, frame) {
            // Events may follow text, for example a tool that is called while the answer is
            // written. Wires that put all events before the text carry late ones in the metadata.
            (Phase::Events, FrameKind::Event) => Phase::Events,
            (Phase::Text, FrameKind::Event) => Phase::Text,
            (Phase::Events | Phase::Text, FrameKind::Text) => Phase::Text,
            // An answer without text is valid.
            (Phase::Events | Phase::Text | Phase::Trailer, FrameKind::End) => Phase::Ended,
            // A decoder reads late events from the metadata before the end is complete.
            (Phase::Trailer, FrameKind::Event) => Phase::Trailer,
            // Comes first, or later for a reader that fell behind. The caller calls `begin_text` if
            // the snapshot has text.
            (Phase::Events, FrameKind::Snapshot) => Phase::Events,
            (Phase::Text, FrameKind::Snapshot) => Phase::Text,
            (Phase::Trailer, FrameKind::Text | FrameKind::Snapshot) | (Phase::Ended, _) => {
                return Err(OutOfOrder {
                    phase: self.phase,
                    frame,
                });
            }
        };
        Ok(())
    }

    /// Records that a decoder has read the beginning of the end.
    pub(crate) fn begin_trailer(&mut self) {
        self.phase = Phase::Trailer;
    }

    /// Records that the answer has begun without a text frame: a decoder has read the separator, or
    /// a snapshot contains text.
    pub(crate) fn begin_text(&mut self) {
        self.phase = Phase::Text;
    }
}

/// The error for a frame that is not allowed in the current phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame {frame:?} is not allowed in phase {phase:?}")]
#[non_exhaustive]
pub struct OutOfOrder {
    /// The phase of the stream.
    pub phase: Phase,
    /// The rejected frame.
    pub frame: FrameKind,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        use FrameKind::{End, Event, Snapshot, Text};
        for (frames, phase) in [
            (&[][..], Phase::Events),
            (&[Event, Event], Phase::Events),
            (&[Event, Text], Phase::Text),
            (&[Text, Event], Phase::Text),
            (&[End], Phase::Ended),
            (&[Snapshot, Event], Phase::Events),
            (&[Text, Snapshot, Snapshot], Phase::Text),
            (&[Event, Text, Event, Text, End], Phase::Ended),
        ] {
            let mut order = Order::default();
            for frame in frames {
                order.accept(*frame).unwrap();
            }
            assert_eq!(order.phase(), phase, "{frames:?}");
        }
        for late in [Event, Text, End, Snapshot] {
            let mut order = Order { phase: Phase::Ended };
            order.accept(late).unwrap_err();
            assert_eq!(order.phase(), Phase::Ended);
        }
    }
}
