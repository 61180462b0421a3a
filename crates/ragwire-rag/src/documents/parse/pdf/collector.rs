//! Collects the characters of a page into lines.

use pdf_extract::{ColorSpace, MediaBox, OutputDev, OutputError, Path, Transform};

use super::glyphs::with_letters;
use super::layout::Line;
use super::listing::{Pitch, Widths, spaces};
use super::table::{MAX_MARK_CHARS, gap_text};

/// The longest mark of an item with the gap behind it, in bytes.
const MAX_MARK_BYTES: usize = 96;

/// Collects characters with their positions into lines.
#[derive(Debug)]
pub(super) struct Collector {
    lines: Vec<Line>,
    /// Of the characters of the last line.
    widths: Widths,
    /// How many more bytes of text are allowed; 0 once the limit is exceeded.
    left_bytes: usize,
    /// Where the last character ended, in the writing direction, and how wide it was.
    last_end: f64,
    last_width: f64,
    /// Whether a new string began. Only then does a gap mean a space: widths inside a string are
    /// unreliable.
    string_begins: bool,
    direction: (f64, f64),
}

impl Collector {
    pub(super) fn new(left_bytes: usize) -> Self {
        Self {
            lines: Vec::new(),
            widths: Widths::default(),
            left_bytes,
            last_end: 0.0,
            last_width: 0.0,
            string_begins: true,
            direction: (1.0, 0.0),
        }
    }

    /// Returns how many more bytes of text are allowed.
    pub(super) fn left_bytes(&self) -> usize {
        self.left_bytes
    }

    /// Returns whether the page has more text than allowed.
    pub(super) fn is_full(&self) -> bool {
        self.left_bytes == 0
    }

    /// Records how wide the characters of the last line are.
    fn seal(&mut self) {
        let widths = std::mem::take(&mut self.widths);
        if let Some(line) = self.lines.last_mut() {
            line.pitch = widths.pitch();
        }
    }

    pub(super) fn finish(mut self) -> Vec<Line> {
        self.seal();
        let mut lines = self.lines;
        lines.retain(|line| !line.text.trim().is_empty());
        for line in &mut lines {
            line.text = with_letters(&line.text);
        }
        lines
    }
}

/// Returns whether the text of a line so far may be the mark of an item, with the gap behind it.
fn follows_mark(text: &str) -> bool {
    if text.len() > MAX_MARK_BYTES || !text.ends_with([' ', '\t']) {
        return false;
    }
    let mark = text.trim();
    !mark.is_empty() && mark.chars().count() <= MAX_MARK_CHARS
}

impl OutputDev for Collector {
    fn begin_page(
        &mut self,
        _: u32,
        _: &MediaBox,
        _: Option<(f64, f64, f64, f64)>,
    ) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_page(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn output_character(
        &mut self,
        at: &Transform,
        width: f64,
        _spacing: f64,
        font_size: f64,
        text: &str,
    ) -> Result<(), OutputError> {
        self.left_bytes = self.left_bytes.saturating_sub(text.len() + 1);
        if self.left_bytes == 0 {
            return Err(OutputError::FormatError(std::fmt::Error));
        }
        // Rotate the page so that the text runs to the right. Landscape pages are written upwards.
        let along = at.m11.hypot(at.m12);
        let direction = if along > 0.0 {
            (at.m11 / along, at.m12 / along)
        } else {
            (1.0, 0.0)
        };
        let size = (font_size * at.m21.hypot(at.m22)).abs();
        let x = at.m31 * direction.0 + at.m32 * direction.1;
        let y = at.m32 * direction.0 - at.m31 * direction.1;
        let turned = (direction.0 - self.direction.0).abs() + (direction.1 - self.direction.1).abs() > 0.1;
        let width = width * font_size.abs() * along;
        let (last_end, last_width) = (self.last_end, self.last_width);
        (self.last_end, self.last_width) = (x + width, width);
        // Some programs write each space as a tab. Here a tab is a gap that shows columns.
        let text = if text == "\t" { " " } else { text };
        // A ligature is one character of several letters, and a space says nothing about the font.
        let chars = usize::from(!text.trim().is_empty());
        let string_begins = std::mem::take(&mut self.string_begins);
        match self.lines.last_mut() {
            Some(line) if !turned => {
                let (tall, fall) = (size.max(line.size), (y - line.y).abs());
                let new_line = fall > tall * 0.8 || (fall > tall * 0.5 && x < last_end);
                if !new_line || !string_begins {
                    let apart = x > last_end + size * 0.1 || x < last_end - size;
                    if string_begins && apart && !line.text.ends_with([' ', '\t']) {
                        let gap = x - last_end;
                        match spaces(gap, last_width, width, size) {
                            1 => line.text.push_str(gap_text(gap, size)),
                            spaces => line.text.extend(std::iter::repeat_n(' ', spaces)),
                        }
                    }
                    if line.text_x.is_none() && follows_mark(&line.text) && chars > 0 {
                        line.text_x = Some(x);
                    }
                    line.text.push_str(text);
                    line.size = tall;
                    line.end = line.end.max(self.last_end);
                    self.widths.add(width, chars);
                    return Ok(());
                }
            }
            _ => {}
        }
        self.direction = direction;
        self.seal();
        self.widths.add(width, chars);
        self.lines.push(Line {
            text: text.to_owned(),
            size,
            x,
            text_x: None,
            y,
            turned: direction.0 < 0.9,
            end: self.last_end,
            pitch: Pitch::default(),
        });
        Ok(())
    }

    fn begin_word(&mut self) -> Result<(), OutputError> {
        self.string_begins = true;
        Ok(())
    }

    fn end_word(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), OutputError> {
        Ok(())
    }

    fn stroke(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Path) -> Result<(), OutputError> {
        Ok(())
    }

    fn fill(&mut self, _: &Transform, _: &ColorSpace, _: &[f64], _: &Path) -> Result<(), OutputError> {
        Ok(())
    }
}
