//! Text that is kept for the end, no more of it than a limit.

/// The beginning of a text.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    text: String,
    max_bytes: usize,
    cut: bool,
}

impl Kept {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            text: String::new(),
            max_bytes,
            cut: false,
        }
    }

    /// Takes as much of `text` as there is room for, at a character.
    pub(super) fn push(&mut self, text: &str) {
        if self.cut {
            // Nothing may follow a gap.
            return;
        }
        let kept = text.floor_char_boundary(self.max_bytes - self.text.len());
        self.text.push_str(&text[..kept]);
        self.cut = kept < text.len();
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether something was cut off.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }
}
