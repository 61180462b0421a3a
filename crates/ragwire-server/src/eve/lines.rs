//! The lines of one turn, read from the journal: by whoever shows them, and by whoever counts them.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use ragwire::turn::TurnStream;
use ragwire::{Eve, Turn};
use serde::Deserialize;

use super::state::Counted;

/// What Eve's readers skip.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b"\n");

/// The lines of a turn from a place on, live to its end.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: TurnStream,
    /// The beginning of a line whose rest is to come.
    unfinished: BytesMut,
    /// How many lines were passed.
    passed: u64,
    /// How many of them the reader has.
    skip: u64,
    ends_session: bool,
}

impl Lines {
    /// Of a turn that is read from its first frame, the lines after the first `skip`. They end where it waits for a human, as those of any
    /// reader of the session.
    pub(super) fn new(turn: Turn, wire: &Eve, skip: u64) -> Self {
        Self {
            stream: turn.stream(wire),
            unfinished: BytesMut::new(),
            passed: 0,
            skip,
            ends_session: false,
        }
    }

    /// The same to the end of the turn, for whoever does not answer what it asks.
    pub(super) fn all(turn: Turn, wire: &Eve) -> Self {
        let mut lines = Self::new(turn, wire, u64::MAX);
        lines.stream = lines.stream.through_questions();
        lines
    }

    /// Whether the turn is not over, but waits for an answer.
    pub(super) fn is_parked(&self) -> bool {
        self.stream.is_parked()
    }

    /// Some more of them, whole lines; keep-alives too. `None` after the last.
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

    /// What is known of the turn when all of it has passed.
    pub(super) fn counted(&self) -> Counted {
        Counted {
            lines: self.passed,
            ends_session: self.ends_session,
        }
    }

    /// Reads them all.
    pub(super) async fn count(mut self) -> Counted {
        while self.next().await.is_some() {}
        self.counted()
    }
}

/// The type of a line that begins or ends something of the session; of no other, so that few are looked at closely.
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
