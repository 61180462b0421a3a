//! The answer as wires keep it that say it whole at the end.

/// A text that grows no further than a limit.
#[derive(Debug)]
pub(super) struct Answer {
    text: String,
    max_bytes: usize,
    /// Whether something was cut off.
    cut: bool,
}

impl Answer {
    /// Most bytes that are kept: 4 MiB, as much as a collected turn.
    pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;

    /// Keeps at most so many bytes; [`Answer::MAX_BYTES`] by default.
    pub(super) fn within(max_bytes: usize) -> Self {
        Self {
            text: String::new(),
            max_bytes,
            cut: false,
        }
    }

    /// Appends `text`; what is over the limit is cut off at a character.
    pub(super) fn push(&mut self, text: &str) {
        if self.cut {
            // Nothing may follow a gap.
            return;
        }
        let kept = text.floor_char_boundary(self.max_bytes - self.text.len());
        self.text.push_str(&text[..kept]);
        self.cut = kept < text.len();
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self::within(Self::MAX_BYTES)
    }
}
