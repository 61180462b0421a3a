//! A reader of a session: the lines of its turns, one turn after the other, from any place on.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::lines::Lines;
use super::state::{At, Phase, Record};
use super::{EveError, EveSession, EveSessions, KEEP_ALIVE};

/// How often a reader looks whether the turn has begun that a session was taken for.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A reader's place in a session.
pub(crate) struct Reader {
    eve: EveSessions,
    owner: String,
    id: String,
    keep_alive: Duration,
    /// The next line.
    index: u64,
    turn: Option<(Record, Lines)>,
}

enum Next {
    Turn,
    /// None has begun yet.
    Wait,
    /// No turn runs.
    End,
}

impl Reader {
    /// A reader that has seen `index` lines.
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
        // What it asks for is refused before anything is sent.
        reader.seek(session).await?;
        Ok(reader)
    }

    /// More lines, or something that keeps the connection open; `None` where all was read and no turn runs, or the one that runs waits for
    /// a human. An error where lines were
    /// dropped that it has not read: it comes back and is told.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, EveError> {
        let mut silent = Duration::ZERO;
        loop {
            if let Some((_, lines)) = &mut self.turn
                && let Some(bytes) = lines.next().await
            {
                return Ok(Some(bytes));
            }
            if self.turn.as_ref().is_some_and(|(_, lines)| lines.is_parked()) {
                // The session waits: what comes after the answer is for whoever comes back for it.
                return Ok(None);
            }
            if let Some((turn, lines)) = self.turn.take() {
                let counted = lines.counted();
                drop(lines);
                self.index = self.index.max(turn.first + counted.lines);
                if turn.lines.is_some_and(|lines| lines != counted.lines) {
                    // It was dropped while it was read.
                    return Err(EveError::Truncated { base: None });
                }
                let settled = self.eve.settle(&self.owner, &self.id, &turn.id, Some(counted));
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
                    tokio::time::sleep(LOOK_AGAIN).await;
                    silent += LOOK_AGAIN;
                    if silent >= self.keep_alive {
                        return Ok(Some(KEEP_ALIVE));
                    }
                }
            }
        }
    }

    /// Finds the turn that its next line belongs to.
    async fn seek(&mut self, session: &EveSession) -> Result<Next, EveError> {
        let index = self.index;
        match session.state.at(index) {
            At::Turn(turn) => match self.eve.lines(session, &turn, index - turn.first).await? {
                Some(lines) => {
                    self.turn = Some((turn, lines));
                    Ok(Next::Turn)
                }
                None => {
                    let is_later = |other: &Record| other.sequence > turn.sequence;
                    Err(self.eve.truncated(session, is_later).await)
                }
            },
            At::Gone => Err(self.eve.truncated(session, |turn| turn.first > index).await),
            At::Nothing => match session.state.phase {
                Phase::Starting { .. } | Phase::Active => Ok(Next::Wait),
                Phase::Waiting | Phase::Over => Ok(Next::End),
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
