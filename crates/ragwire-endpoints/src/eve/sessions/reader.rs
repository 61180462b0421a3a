//! Reads the lines of a session, turn by turn, from any index.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::error::EveError;
use super::lines::{KEEP_ALIVE, Lines};
use super::state::{LinePosition, Phase, TurnRecord};
use super::{EveSession, EveSessions};

/// How often a reader checks whether the turn of a claimed session has started.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A reader of a session.
pub(crate) struct Reader {
    eve: EveSessions,
    owner: String,
    id: String,
    keep_alive: Duration,
    /// The index of the next line.
    index: u64,
    turn: Option<(TurnRecord, Lines)>,
}

enum Next {
    Turn,
    /// The turn has not started yet.
    Wait,
    /// No turn is running.
    End,
}

impl Reader {
    /// Opens a reader that has already received `index` lines. Fails if the next line was dropped.
    pub(crate) async fn open(
        eve: &EveSessions,
        session: &EveSession,
        index: u64,
        keep_alive: Duration,
    ) -> Result<Self, EveError> {
        let mut reader = Self {
            eve: eve.clone(),
            owner: session.owner.clone(),
            id: session.id.clone(),
            keep_alive,
            index,
            turn: None,
        };
        // Report missing lines before the response begins.
        reader.seek(session).await?;
        Ok(reader)
    }

    /// Returns more lines or a keep-alive. `None` once everything was read and no turn is running,
    /// or the running turn waits for a human.
    ///
    /// Fails if lines were dropped before they were read; a reconnect then reports the reason.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, EveError> {
        let mut silent = Duration::ZERO;
        loop {
            if let Some((_, lines)) = &mut self.turn
                && let Some(bytes) = lines.next().await
            {
                return Ok(Some(bytes));
            }
            if self.turn.as_ref().is_some_and(|(_, lines)| lines.is_parked()) {
                // The client reconnects for the lines after the answer.
                return Ok(None);
            }
            if let Some((turn, lines)) = self.turn.take() {
                let count = lines.line_count();
                drop(lines);
                self.index = self.index.max(turn.first + count.lines);
                if turn.lines.is_some_and(|lines| lines != count.lines) {
                    // The journal dropped lines during the read.
                    return Err(EveError::Truncated { base: None });
                }
                let settled = self.eve.settle(&self.owner, &self.id, &turn.id, Some(count));
                settled.await?;
            }
            let session = match self.eve.find(&self.owner, &self.id).await {
                Err(EveError::Unknown) => return Ok(None),
                found => found?,
            };
            match self.seek(&session).await? {
                Next::Turn => {}
                Next::End => return Ok(None),
                Next::Wait => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                    silent += POLL_INTERVAL;
                    if silent >= self.keep_alive {
                        return Ok(Some(KEEP_ALIVE));
                    }
                }
            }
        }
    }

    /// Finds the turn of the next line.
    async fn seek(&mut self, session: &EveSession) -> Result<Next, EveError> {
        let index = self.index;
        match session.state.position(index) {
            LinePosition::Turn(turn) => match self.eve.lines(session, &turn, index - turn.first).await? {
                Some(lines) => {
                    self.turn = Some((turn, lines));
                    Ok(Next::Turn)
                }
                None => {
                    let is_later = |other: &TurnRecord| other.sequence > turn.sequence;
                    Err(self.eve.truncated(session, is_later).await)
                }
            },
            LinePosition::Dropped => Err(self.eve.truncated(session, |turn| turn.first > index).await),
            LinePosition::End => match session.state.phase {
                Phase::Starting { .. } | Phase::Active => Ok(Next::Wait),
                Phase::Waiting | Phase::Failed => Ok(Next::End),
            },
        }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}
