//! The answer so far, for wires that send the whole answer at the end.

/// A text that is cut at a limit.
#[derive(Debug)]
pub(super) struct Answer {
    text: String,
    max_bytes: usize,
    /// Whether text was cut off.
    is_cut: bool,
}

impl Answer {
    /// The default limit, 4 MiB, is that of a collected turn.
    pub(super) const MAX_BYTES: usize = 4 * 1024 * 1024;

    /// Creates an empty answer that keeps at most `max_bytes`.
    pub(super) fn with_limit(max_bytes: usize) -> Self {
        Self {
            text: String::new(),
            max_bytes,
            is_cut: false,
        }
    }

    /// Appends `text`, cut at a character boundary if it exceeds the limit.
    pub(super) fn push(&mut self, text: &str) {
        if self.is_cut {
            // Text after the cut would follow a gap.
            return;
        }
        let kept = text.floor_char_boundary(self.max_bytes - self.text.len());
        self.text.push_str(&text[..kept]);
        self.is_cut = kept < text.len();
    }

    /// Withdraws the text after the first `kept` characters.
    pub(super) fn retract(&mut self, kept: u64) {
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        if let Some((end, _)) = self.text.char_indices().nth(kept) {
            self.text.truncate(end);
            // What follows begins before the cut again.
            self.is_cut = false;
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self::with_limit(Self::MAX_BYTES)
    }
}
