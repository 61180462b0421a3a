//! The lines of one turn, read from the journal, to send or to count them.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use ragwire::turn::TurnStream;
use ragwire::{Eve, Turn};
use serde::Deserialize;

use super::state::LineCount;

/// An empty line, which Eve clients ignore.
pub(super) const KEEP_ALIVE: Bytes = Bytes::from_static(b"\n");

/// The lines of a turn from an index, live until its end.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: TurnStream,
    /// The beginning of an incomplete line.
    unfinished: BytesMut,
    /// How many lines have been read.
    passed: u64,
    /// How many of them the client already has.
    skip: u64,
    ends_session: bool,
}

impl Lines {
    /// Returns the lines after the first `skip` of a turn that is read from its first frame. They
    /// end when the turn waits for a human.
    pub(super) fn new(turn: Turn, wire: &Eve, skip: u64) -> Self {
        Self {
            stream: turn.stream(wire),
            unfinished: BytesMut::new(),
            passed: 0,
            skip,
            ends_session: false,
        }
    }

    /// Returns all lines until the end of the turn, past questions to a human.
    pub(super) fn all(turn: Turn, wire: &Eve) -> Self {
        let mut lines = Self::new(turn, wire, u64::MAX);
        lines.stream = lines.stream.through_questions();
        lines
    }

    /// Returns whether the lines ended because the turn waits for an answer.
    pub(super) fn is_parked(&self) -> bool {
        self.stream.is_parked()
    }

    /// Returns the next whole lines or keep-alives; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        loop {
            let chunk = self.stream.next().await?;
            if chunk == KEEP_ALIVE && self.unfinished.is_empty() {
                return Some(chunk);
            }
            self.unfinished.extend_from_slice(&chunk);
            let mut rest = BytesMut::new();
            while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
                let line = self.unfinished.split_to(end + 1);
                if line == KEEP_ALIVE {
                    continue;
                }
                self.ends_session = kind(&line) == Some("session.failed");
                if self.passed >= self.skip {
                    rest.extend_from_slice(&line);
                }
                self.passed += 1;
            }
            if !rest.is_empty() {
                return Some(rest.freeze());
            }
        }
    }

    /// Returns the number of lines once all of them have been read.
    pub(super) fn line_count(&self) -> LineCount {
        LineCount {
            lines: self.passed,
            ends_session: self.ends_session,
        }
    }

    /// Reads and counts all lines.
    pub(super) async fn count(mut self) -> LineCount {
        while self.next().await.is_some() {}
        self.line_count()
    }
}

/// Appends empty lines, which Eve's clients skip, up to a multiple of `block` bytes.
pub(crate) fn padded(lines: Bytes, block: usize) -> Bytes {
    let bytes = lines.len().next_multiple_of(block.max(1));
    if bytes == lines.len() {
        return lines;
    }
    let mut padded = BytesMut::with_capacity(bytes);
    padded.extend_from_slice(&lines);
    padded.resize(bytes, b'\n');
    padded.freeze()
}

/// Returns the type of a line if it starts with `session.`. Other lines are not parsed, for speed.
fn kind(line: &[u8]) -> Option<&str> {
    #[derive(Deserialize)]
    struct Line<'a> {
        r#type: &'a str,
    }
    if !line.starts_with(br#"{"type":"session."#) {
        return None;
    }
    serde_json::from_slice::<Line<'_>>(line)
        .ok()
        .map(|line| line.r#type)
}
