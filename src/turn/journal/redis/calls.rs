//! Stops and answers for a turn of another host: asked through the inbox of that host, whose own turn decides.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::mirror::Look;
use super::{Store, ear, keys, millis};
use crate::redis::link::{Request, Unreachable};
use crate::turn::human::open::AnswerSource;
use crate::turn::journal::Journal;
use crate::turn::{AnswerError, AnswerOutcome, TurnId};

/// After this time it is asked again: everything that is asked so may be asked twice.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long the host of a turn that is over is waited for. It may remember its answers; who asks that host is told so at once.
const REMEMBERS: Duration = Duration::from_millis(500);

/// Most entries of an inbox: what is older has been read, or nobody waits for it.
const MAX_INBOX: usize = 1024;

/// How long an inbox stays that nobody writes to: longer than anybody waits for an answer.
const INBOX_LIFE: Duration = Duration::from_secs(120);

/// What is asked of the host of a turn.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Stop,
    Answer {
        request_id: String,
        answer: Value,
        by: AnswerSource,
    },
}

/// What the host says to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Stopped,
    /// It was over before.
    Over,
    /// The host does not have this turn.
    Unknown,
    Answered(Result<AnswerOutcome, AnswerError>),
}

impl Outcome {
    const ALL: [Self; 9] = [
        Self::Stopped,
        Self::Over,
        Self::Unknown,
        Self::Answered(Ok(AnswerOutcome::Accepted)),
        Self::Answered(Ok(AnswerOutcome::Same)),
        Self::Answered(Err(AnswerError::Unknown)),
        Self::Answered(Err(AnswerError::Different)),
        Self::Answered(Err(AnswerError::Late)),
        Self::Answered(Err(AnswerError::Invalid)),
    ];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Over => "over",
            Self::Unknown => "unknown_turn",
            Self::Answered(Ok(AnswerOutcome::Accepted)) => "accepted",
            Self::Answered(Ok(AnswerOutcome::Same)) => "same",
            Self::Answered(Err(error)) => error.code(),
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.word() == word)
    }

    pub(super) fn answered(self) -> Result<AnswerOutcome, AnswerError> {
        match self {
            Self::Answered(answered) => answered,
            Self::Stopped | Self::Over | Self::Unknown => Err(AnswerError::Late),
        }
    }
}

/// One entry of an inbox.
#[derive(Debug)]
pub(super) enum Message {
    Call {
        id: TurnId,
        command: Command,
        /// Whom to answer, and under which number.
        from: String,
        number: String,
    },
    Reply {
        number: u64,
        outcome: Outcome,
    },
}

impl Message {
    /// `None` for whatever is neither: also what only wakes the reader.
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
            act @ ("answer" | "authorized") => Command::Answer {
                request_id: text("request_id")?.to_owned(),
                answer: serde_json::from_str(text("answer")?).ok()?,
                by: if act == "answer" {
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

/// Adds an entry to the inbox of a process, which does not grow or stay for ever.
pub(super) fn send(pipeline: &mut redis::Pipeline, prefix: &str, process: &str, fields: &[(&str, &str)]) {
    let inbox = keys::inbox(prefix, process);
    pipeline
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

/// Does here what another host asks, and says what came of it.
pub(super) fn perform(journal: &Journal, id: TurnId, command: Command) -> Outcome {
    let Some(log) = journal.local(id) else {
        return Outcome::Unknown;
    };
    let handle = &log.head.handle;
    match command {
        Command::Stop if handle.stop() => Outcome::Stopped,
        Command::Stop => Outcome::Over,
        Command::Answer {
            request_id,
            answer,
            by,
        } => Outcome::Answered(handle.accept(&request_id, answer, by)),
    }
}

/// Asks the host of a turn; `None` where it does not answer though it should be there.
pub(super) async fn call(
    store: &Arc<Store>,
    journal: &Journal,
    mut look: Look,
    command: Command,
) -> Option<Outcome> {
    let (number, mut reply) = store.expect();
    let waiting = Waiting { store, number };
    ear::listen(store, journal);
    let give_up = Instant::now() + store.options.call_timeout;
    let mut silent_since = None;
    loop {
        let mut pipeline = redis::pipe();
        pipeline.atomic();
        waiting.ask(&mut pipeline, &look, &command);
        let sent = timeout_at(give_up, store.link.request::<()>(Request::Commands(&pipeline))).await;
        let (Ok(Ok(())), id) = (sent, look.id) else {
            return None;
        };
        let patience = if look.is_over { REMEMBERS } else { ASK_AGAIN };
        match timeout_at(give_up.min(Instant::now() + patience), &mut reply).await {
            // Its host may have forgotten it, or may be gone: then all of it is told.
            Ok(Ok(Outcome::Unknown)) | Err(_) if look.is_over => return Some(Outcome::Over),
            Ok(Ok(Outcome::Unknown)) => {
                // It will be seen to be over when its lease is.
                let (again, expected) = store.expect_as(number);
                debug_assert_eq!(again, number);
                reply = expected;
                tokio::time::sleep_until(give_up.min(Instant::now() + ASK_AGAIN)).await;
            }
            Ok(Ok(outcome)) => return Some(outcome),
            Ok(Err(_)) => return None,
            Err(_) => {}
        }
        if Instant::now() >= give_up {
            return None;
        }
        look = match timeout_at(give_up, store.look(id)).await {
            Ok(Ok(Some(look))) => look,
            Ok(Ok(None)) => return Some(Outcome::Over),
            Ok(Err(Unreachable)) | Err(_) => return None,
        };
        silent_since = match look.lease {
            None if !look.is_over => silent_since.or_else(|| Some(Instant::now())),
            _ => None,
        };
        if silent_since.is_some_and(|since| since.elapsed() >= store.options.lease_grace()) {
            // Whether it ends here or somebody was faster, the next look tells.
            timeout_at(give_up, store.fence(&look)).await.ok()?.ok()?;
        }
    }
}

/// Somebody waits for a reply; nobody does when this is dropped.
struct Waiting<'a> {
    store: &'a Store,
    number: u64,
}

impl Waiting<'_> {
    fn ask(&self, pipeline: &mut redis::Pipeline, look: &Look, command: &Command) {
        let (id, number) = (look.id.to_string(), self.number.to_string());
        let mut fields = vec![
            ("turn", id.as_str()),
            ("from", self.store.process.as_str()),
            ("number", number.as_str()),
        ];
        let json;
        match command {
            Command::Stop => fields.push(("do", "stop")),
            Command::Answer {
                request_id,
                answer,
                by,
            } => {
                json = answer.to_string();
                let act = match by {
                    AnswerSource::Human => "answer",
                    AnswerSource::Program => "authorized",
                };
                fields.extend([("do", act), ("request_id", request_id), ("answer", &json)]);
            }
        }
        send(pipeline, &self.store.options.prefix, &look.host, &fields);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.store.lock().calls.remove(&self.number);
    }
}

impl Store {
    fn expect(&self) -> (u64, oneshot::Receiver<Outcome>) {
        let mut listening = self.lock();
        let number = listening.next_call;
        listening.next_call += 1;
        drop(listening);
        self.expect_as(number)
    }

    fn expect_as(&self, number: u64) -> (u64, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        self.lock().calls.insert(number, sender);
        (number, receiver)
    }

    /// A host has answered. The second answer to the same question finds nobody.
    pub(super) fn replied(&self, number: u64, outcome: Outcome) {
        let waiting = self.lock().calls.remove(&number);
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
