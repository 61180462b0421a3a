//! The messages between hosts, sent through their inboxes: commands for a turn, and their outcomes.

use std::time::Duration;

use serde_json::Value;

use super::keys::{self, millis};
use crate::turn::human::open::AnswerSource;
use crate::turn::{AnswerError, AnswerOutcome, TurnId};

/// The maximum number of entries of an inbox. Older ones have been read, or their sender has given
/// up.
pub(super) const MAX_INBOX: usize = 1024;

/// The time to live of an inbox without new entries: longer than any sender waits for a reply.
const INBOX_LIFE: Duration = Duration::from_secs(120);

/// A command for the host that runs a turn.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Stop,
    Answer {
        request_id: String,
        answer: Value,
        by: AnswerSource,
    },
}

/// The result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Stopped,
    /// The turn had ended before.
    Finished,
    /// The host does not have this turn.
    UnknownTurn,
    Answered(Result<AnswerOutcome, AnswerError>),
}

impl Outcome {
    const ALL: [Self; 9] = [
        Self::Stopped,
        Self::Finished,
        Self::UnknownTurn,
        Self::Answered(Ok(AnswerOutcome::Accepted)),
        Self::Answered(Ok(AnswerOutcome::Same)),
        Self::Answered(Err(AnswerError::Unknown)),
        Self::Answered(Err(AnswerError::Different)),
        Self::Answered(Err(AnswerError::Late)),
        Self::Answered(Err(AnswerError::Invalid)),
    ];

    /// Returns the code that a reply carries.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Finished => "over",
            Self::UnknownTurn => "unknown_turn",
            Self::Answered(Ok(AnswerOutcome::Accepted)) => "accepted",
            Self::Answered(Ok(AnswerOutcome::Same)) => "same",
            Self::Answered(Err(error)) => error.code(),
        }
    }

    fn parse(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }

    /// Returns the result of an answer.
    pub(super) fn into_answered(self) -> Result<AnswerOutcome, AnswerError> {
        match self {
            Self::Answered(answered) => answered,
            Self::Stopped | Self::Finished | Self::UnknownTurn => Err(AnswerError::Late),
        }
    }
}

/// One entry of an inbox.
#[derive(Debug)]
pub(super) enum Message {
    Call {
        id: TurnId,
        command: Command,
        /// The process that waits for the reply, and the number of the call there.
        from: String,
        number: String,
    },
    Reply {
        number: u64,
        outcome: Outcome,
    },
}

impl Message {
    /// Parses an entry; `None` if it is neither a call nor a reply, like an entry that only wakes
    /// the subscriber.
    pub(super) fn parse(fields: &[(String, Vec<u8>)]) -> Option<Self> {
        let text = |name: &str| {
            let (_, value) = fields.iter().find(|(field, _)| field == name)?;
            std::str::from_utf8(value).ok()
        };
        if let Some(outcome) = text("outcome") {
            return Some(Self::Reply {
                number: text("number")?.parse().ok()?,
                outcome: Outcome::parse(outcome)?,
            });
        }
        let command = match text("do")? {
            "stop" => Command::Stop,
            action @ ("answer" | "authorized") => Command::Answer {
                request_id: text("request_id")?.to_owned(),
                answer: serde_json::from_str(text("answer")?).ok()?,
                by: if action == "answer" {
                    AnswerSource::Human
                } else {
                    AnswerSource::Program
                },
            },
            _ => return None,
        };
        Some(Self::Call {
            id: TurnId::parse(text("turn")?)?,
            command,
            from: text("from")?.to_owned(),
            number: text("number")?.to_owned(),
        })
    }
}

/// Adds an entry to the inbox of a process. The inbox is bounded and expires. The pipeline becomes a
/// transaction: one that breaks in the middle would leave an inbox that never expires.
pub(super) fn send(pipeline: &mut redis::Pipeline, prefix: &str, process: &str, fields: &[(&str, &str)]) {
    let inbox = keys::inbox(prefix, process);
    pipeline
        .atomic()
        .cmd("XADD")
        .arg(&inbox)
        .arg("MAXLEN")
        .arg("~")
        .arg(MAX_INBOX)
        .arg("*")
        .arg(fields)
        .ignore()
        .cmd("PEXPIRE")
        .arg(&inbox)
        .arg(millis(INBOX_LIFE))
        .ignore();
}

#[cfg(test)]
mod tests;
