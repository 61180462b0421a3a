//! How much of a turn may wait for its reader.

/// How much may wait for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLimits {
    /// Most frames that wait; adjacent texts count as one.
    pub max_frames: usize,
    /// Most bytes that wait. A frame is taken while fewer than this wait, so the largest frame comes on top; so do, on the
    /// framed wire, events that come after the first text, which wait for the metadata within its own limit.
    pub max_bytes: usize,
    /// Longest event in bytes of JSON while nobody has chosen a wire; after that the wire's own limit holds.
    pub max_event_bytes: usize,
}

impl QueueLimits {
    /// 256 frames: more than the progress of most turns, so retrieval never waits for a slow reader.
    pub const MAX_FRAMES: usize = 256;
    /// 48 KiB: a long answer fits, and with one more frame it still fits an allocation of 64 KiB.
    pub const MAX_BYTES: usize = 48 * 1024;
    /// 256 KiB: what the framed wire takes as a line.
    pub const MAX_EVENT_BYTES: usize = crate::wire::Limits::MAX_LINE_BYTES;

    /// What a line of our own wires has around an event: its index, its time stamp.
    const LINE_ROOM: usize = 1024;

    /// With events short enough to be a line of every wire of our own, by its default limits.
    pub(super) fn within_a_line(self) -> Self {
        Self {
            max_event_bytes: self.max_event_bytes.min(Self::MAX_EVENT_BYTES - Self::LINE_ROOM),
            ..self
        }
    }

    /// Sets how many frames may wait; at least one.
    #[must_use]
    pub fn max_frames(mut self, frames: usize) -> Self {
        self.max_frames = frames.max(1);
        self
    }

    /// Sets how many bytes may wait; at least one.
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes.max(1);
        self
    }

    /// Sets how long an event may be, in bytes of JSON.
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
