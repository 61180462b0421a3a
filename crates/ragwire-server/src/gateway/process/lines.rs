//! Lines of a process within a limit.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// What happens to a line that is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// It is an error.
    Refuse,
    /// The rest of the line is dropped.
    Cut,
}

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// The line is longer than the limit.
    #[error("line is too long")]
    TooLong,
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Reads lines and keeps at most one, within the limit.
#[derive(Debug)]
pub(super) struct LineReader<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    max_bytes: usize,
    excess: Excess,
    /// The line was returned, so that the next one replaces it.
    is_taken: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(reader: R, max_bytes: usize, excess: Excess) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            max_bytes,
            excess,
            is_taken: false,
        }
    }

    /// Returns the next line without its line end, or `None` at the end of the stream. A last line
    /// without a line end is a line.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        if self.is_taken {
            self.line.clear();
            self.is_taken = false;
        }
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                self.is_taken = true;
                return Ok((!self.line.is_empty()).then_some(&*self.line));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            let room = self.max_bytes - self.line.len();
            if piece.len() > room && self.excess == Excess::Refuse {
                return Err(LineError::TooLong);
            }
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            let used = piece.len() + usize::from(end.is_some());
            self.reader.consume(used);
            if end.is_some() {
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
                self.is_taken = true;
                return Ok(Some(&self.line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], max_bytes: usize, excess: Excess) -> (Vec<String>, bool) {
        let mut lines = LineReader::new(bytes, max_bytes, excess);
        let mut read = Vec::new();
        loop {
            match lines.next().await {
                Ok(Some(line)) => read.push(String::from_utf8_lossy(line).into_owned()),
                Ok(None) => return (read, true),
                Err(_) => return (read, false),
            }
        }
    }

    #[tokio::test]
    async fn lines_are_cut_or_refused_at_the_limit() {
        let bytes = b"abc\r\n\nabcd\nabcde\nx";
        let (lines, is_whole) = read(bytes, 4, Excess::Cut).await;
        assert_eq!(
            (lines, is_whole),
            (["abc", "", "abcd", "abcd", "x"].map(String::from).to_vec(), true)
        );
        let (lines, is_whole) = read(bytes, 4, Excess::Refuse).await;
        assert_eq!(
            (lines, is_whole),
            (["abc", "", "abcd"].map(String::from).to_vec(), false)
        );
        assert_eq!(read(b"", 4, Excess::Cut).await, (vec![], true));
    }
}
