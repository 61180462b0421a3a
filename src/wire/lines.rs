//! Splits a stream of bytes into lines and holds no more than the limit. Knows neither the encoding
//! nor the content of a line.

/// The bytes that end a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// LF alone.
    Lf,
    /// LF, CR or CR LF. A line ends at its CR: waiting for the LF would hold back a complete line.
    Any,
}

/// A line is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The unfinished line, and whether the last bytes stopped within a line end.
#[derive(Debug)]
pub(super) struct Lines {
    end: LineEnd,
    max_bytes: usize,
    unfinished: Vec<u8>,
    /// Whether `unfinished` was returned as a line and must be cleared.
    is_returned: bool,
    /// Whether the last line ended with a CR, so that an LF right after it does not end another
    /// line.
    after_cr: bool,
}

impl Lines {
    pub(super) fn new(end: LineEnd, max_bytes: usize) -> Self {
        Self {
            end,
            max_bytes,
            unfinished: Vec::new(),
            is_returned: false,
            after_cr: false,
        }
    }

    /// Takes the next line from the front of `bytes` and returns it without its end; takes all of
    /// `bytes` if no line is complete.
    pub(super) fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<&'a [u8]>, TooLong> {
        if std::mem::take(&mut self.is_returned) {
            self.unfinished.clear();
        }
        if self.after_cr
            && let Some((first, rest)) = bytes.split_first()
        {
            self.after_cr = false;
            if *first == b'\n' {
                *bytes = rest;
            }
        }
        let at = match self.end {
            LineEnd::Lf => memchr::memchr(b'\n', bytes),
            LineEnd::Any => memchr::memchr2(b'\n', b'\r', bytes),
        };
        let all: &'b [u8] = bytes;
        let line = &all[..at.unwrap_or(all.len())];
        if self.unfinished.len() + line.len() > self.max_bytes {
            self.clear();
            return Err(TooLong);
        }
        let Some(at) = at else {
            self.unfinished.extend_from_slice(line);
            *bytes = &[];
            return Ok(None);
        };
        self.after_cr = all[at] == b'\r';
        *bytes = &all[at + 1..];
        // The usual case: the whole line arrived at once, and nothing is copied.
        if self.unfinished.is_empty() {
            return Ok(Some(line));
        }
        self.unfinished.extend_from_slice(line);
        self.is_returned = true;
        Ok(Some(&self.unfinished))
    }

    /// Drops the unfinished line and frees its memory.
    pub(super) fn clear(&mut self) {
        self.unfinished = Vec::new();
        self.is_returned = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(end: LineEnd, max_bytes: usize, chunks: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
        let (mut lines, mut out) = (Lines::new(end, max_bytes), Vec::new());
        for chunk in chunks {
            let mut bytes = *chunk;
            while !bytes.is_empty() {
                match lines.next(&mut bytes) {
                    Ok(Some(line)) => out.push(line.to_vec()),
                    Ok(None) => {}
                    Err(TooLong) => return (out, true),
                }
            }
        }
        (out, false)
    }

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        for (end, bytes, expected) in [
            (
                LineEnd::Any,
                &b"a\r\n\r\nb\rc\n\n\rd"[..],
                &["a", "", "b", "c", "", ""][..],
            ),
            (LineEnd::Any, b"\n\r\n\r\r", &["", "", "", ""]),
            (LineEnd::Lf, b"a\r\nb\rc\n\nd", &["a\r", "b\rc", ""]),
        ] {
            let expected: Vec<Vec<u8>> = expected.iter().map(|line| line.as_bytes().to_vec()).collect();
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let chunks = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                    assert_eq!(split(end, 8, &chunks), (expected.clone(), false));
                }
            }
        }
    }

    #[test]
    fn the_first_byte_over_the_limit_is_an_error() {
        for (bytes, lines, too_long) in [
            (&b"abc\nabc"[..], 1, false),
            (b"abc\nabcd", 1, true),
            (b"abcd\n", 0, true),
        ] {
            for size in [bytes.len(), 1] {
                let chunks: Vec<_> = bytes.chunks(size).collect();
                let (out, error) = split(LineEnd::Lf, 3, &chunks);
                assert_eq!((out.len(), error), (lines, too_long));
            }
        }
    }
}
