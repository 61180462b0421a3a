//! Cuts a stream of bytes into lines, holding no more than the limit. Knows no encoding and nothing of what a line says.

/// What ends a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// LF alone.
    Lf,
    /// LF, CR or CR LF. A line ends at its CR already: to wait for the LF would hold back what is complete.
    Any,
}

/// A line is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The unfinished line, and where in a line end the last bytes stopped.
#[derive(Debug)]
pub(super) struct Lines {
    end: LineEnd,
    max_bytes: usize,
    held: Vec<u8>,
    /// `held` was handed out and is to be forgotten.
    taken: bool,
    /// The last line ended with a CR, so an LF right after it ends none.
    after_cr: bool,
}

impl Lines {
    pub(super) fn new(end: LineEnd, max_bytes: usize) -> Self {
        Self {
            end,
            max_bytes,
            held: Vec::new(),
            taken: false,
            after_cr: false,
        }
    }

    /// Takes bytes off the front of `bytes`: the next line without its end, or all of them where none is complete.
    pub(super) fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<&'a [u8]>, TooLong> {
        if std::mem::take(&mut self.taken) {
            self.held.clear();
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
        if self.held.len() + line.len() > self.max_bytes {
            self.forget();
            return Err(TooLong);
        }
        let Some(at) = at else {
            self.held.extend_from_slice(line);
            *bytes = &[];
            return Ok(None);
        };
        self.after_cr = all[at] == b'\r';
        *bytes = &all[at + 1..];
        // The usual case: the whole line came at once, and nothing is copied.
        if self.held.is_empty() {
            return Ok(Some(line));
        }
        self.held.extend_from_slice(line);
        self.taken = true;
        Ok(Some(&self.held))
    }

    /// Gives up the unfinished line and its memory.
    pub(super) fn forget(&mut self) {
        self.held = Vec::new();
        self.taken = false;
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
    fn the_limit_is_found_with_the_byte_that_passes_it() {
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
