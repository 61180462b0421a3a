//! The limits of the queue between the orchestrator and the reader.

/// Limits how much may wait for the reader. When a limit is reached, sends wait.
///
/// ```
/// use ragwire::Turn;
/// use ragwire::turn::QueueLimits;
///
/// let turn = Turn::builder().queue(QueueLimits::default().max_frames(64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLimits {
    /// The maximum number of waiting frames; adjacent texts count as one. Default: 256, more than
    /// the progress of most turns, so that retrieval does not wait for a slow reader.
    pub max_frames: usize,
    /// The maximum number of waiting bytes. A frame is accepted while fewer bytes wait, so the
    /// total may exceed the limit by one frame. On the framed wire, events after the first text
    /// wait for the metadata under its own limit and do not count. Default: 48 KiB, so that a long
    /// answer fits, and with one more frame it still fits an allocation of 64 KiB.
    pub max_bytes: usize,
    /// The maximum length of an event in bytes of JSON until a wire is chosen; from then on the
    /// wire's limit applies. Default: 256 KiB, the framed wire's limit for a line.
    pub max_event_bytes: usize,
}

impl QueueLimits {
    const MAX_FRAMES: usize = 256;
    pub(super) const MAX_BYTES: usize = 48 * 1024;
    const MAX_EVENT_BYTES: usize = crate::wire::Limits::MAX_LINE_BYTES;

    /// The room that a line needs for the event's index and timestamp.
    const LINE_ROOM: usize = 1024;

    /// Limits events so that each fits a line of this crate's wires with their default limits.
    pub(super) fn within_a_line(self) -> Self {
        Self {
            max_event_bytes: self.max_event_bytes.min(Self::MAX_EVENT_BYTES - Self::LINE_ROOM),
            ..self
        }
    }

    /// Sets the maximum number of waiting frames, at least 1.
    #[must_use]
    pub fn max_frames(mut self, frames: usize) -> Self {
        self.max_frames = frames.max(1);
        self
    }

    /// Sets the maximum number of waiting bytes, at least 1.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes.max(1);
        self
    }

    /// Sets the maximum length of an event in bytes of JSON.
    #[must_use]
    pub fn max_event_bytes(mut self, bytes: usize) -> Self {
        self.max_event_bytes = bytes;
        self
    }
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            max_frames: Self::MAX_FRAMES,
            max_bytes: Self::MAX_BYTES,
            max_event_bytes: Self::MAX_EVENT_BYTES,
        }
    }
}
