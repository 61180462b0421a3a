//! What a turn has asked, and which answers are taken: one for each question, once.
//!
//! It knows no runtime and no clock: wakers go in, and whoever waits says when it has waited long enough. One lock of its own, never
//! held together with the queue's.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use serde_json::Value;

use super::sync::{Mutex, MutexGuard};
use crate::json;

/// Most questions of one turn that wait at a time: more than a person answers on one page.
const MAX_OPEN: usize = 16;
/// Most questions of one turn that are remembered when they are over, so that an answer that comes again is known for what it is;
/// the oldest is forgotten first. Twice as many as can be open, so none is forgotten while its neighbours still wait.
const MAX_PAST: usize = 2 * MAX_OPEN;
/// Longest answer in bytes of JSON: some pages of text. It is remembered, and goes on the wire as a part of one event.
pub(super) const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// The `kind` of a question that is answered by yes or no.
pub(super) const APPROVAL: &str = "approval";
/// The `kind` of a question whose answer is not one of its options.
pub(super) const TEXT: &str = "text";

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenAsk {
    /// Names the question in its answer.
    pub request_id: String,
    /// `approval`, `choice`, `text`, a word of the application's own, or `authorization`.
    pub kind: String,
    /// What the human is asked; for an authorization the name of the connection.
    pub prompt: String,
    /// The answers to choose from; empty where any will do.
    pub options: Vec<String>,
}

impl OpenAsk {
    /// The answer of a human who says yes or no and nothing else: the first of the options, or the last. `None` where that cannot be
    /// said of this question: it is no `approval`, or has fewer than two options.
    pub fn verdict(&self, approved: bool) -> Option<Value> {
        let verdict = match self.options.as_slice() {
            [yes, .., no] if self.kind == APPROVAL => Some(if approved { yes } else { no }),
            _ => None,
        };
        verdict.map(|word| word.as_str().into())
    }

    /// Whether a human may answer so.
    fn takes(&self, answer: &Value) -> bool {
        if self.options.is_empty() || self.kind == TEXT {
            // JSON spells an absent answer so: it would look like none.
            return !answer.is_null();
        }
        self.options.iter().any(|option| answer == option.as_str())
    }
}

/// An answer was taken, now or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Now: whoever asked has it.
    Accepted,
    /// Before: an equal one was taken, and nothing has changed.
    Same,
}

/// Why an answer was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The turn has asked no such question, or has forgotten it.
    #[error("no such question was asked")]
    Unknown,
    /// Another answer was taken before.
    #[error("question was answered differently")]
    Different,
    /// Nobody waits for the answer any more: time is up, the question was withdrawn, or the turn is over.
    #[error("question is over")]
    Late,
    /// The question cannot be answered so; another answer may be taken.
    #[error("answer does not fit the question")]
    Invalid,
    /// The host that runs the turn does not answer. Giving the same answer again is safe.
    #[error("the host of the turn is not reachable")]
    Unavailable,
}

impl AnswerError {
    /// Stable machine word for this error.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unknown => "ask_unknown",
            Self::Different => "ask_answered",
            Self::Late => "ask_over",
            Self::Invalid => "answer_invalid",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why a question is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unasked {
    /// Its id names another question of this turn.
    InUse,
    /// Too many wait.
    TooMany,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// Whoever has the question before them.
    Human,
    /// The program that learnt how an authorization ended.
    Program,
}

/// The questions of one turn.
#[derive(Debug, Default)]
pub(crate) struct Asks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: Vec<Open>,
    past: VecDeque<Past>,
}

/// Somebody waits for it, or has not noticed the answer yet.
#[derive(Debug)]
struct Open {
    ask: OpenAsk,
    /// How it ended is for a program to say.
    authorization: bool,
    answer: Option<Value>,
    /// The reader's wire does not show it before the end.
    is_hidden: bool,
    waker: Option<Waker>,
}

/// Nobody waits for it any more.
#[derive(Debug)]
struct Past {
    request_id: String,
    answer: Option<Value>,
}

impl Asks {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below panics halfway through a change.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes answers to `ask` from now on. An id is good for one question of a turn, so that no answer is taken for another's.
    pub(crate) fn open(&self, ask: OpenAsk, authorization: bool) -> Result<(), Unasked> {
        let mut state = self.lock();
        if state.find(&ask.request_id).is_some() || state.remembered(&ask.request_id).is_some() {
            return Err(Unasked::InUse);
        }
        if state.open.len() >= MAX_OPEN {
            return Err(Unasked::TooMany);
        }
        state.open.push(Open {
            ask,
            authorization,
            answer: None,
            is_hidden: false,
            waker: None,
        });
        Ok(())
    }

    /// The reader does not see the question: whoever asks is told.
    pub(crate) fn hide(&self, request_id: &str) {
        let mut state = self.lock();
        let Some(open) = state.find(request_id) else {
            return;
        };
        open.is_hidden = true;
        let waker = open.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn is_hidden(&self, request_id: &str) -> bool {
        self.lock().find(request_id).is_some_and(|open| open.is_hidden)
    }

    /// Waits until the question is answered.
    pub(crate) fn poll_answered(&self, request_id: &str, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        match state.find(request_id) {
            Some(open) if open.answer.is_none() => {
                match &mut open.waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => open.waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Nobody waits any more: the answer if there is one, and from now on none is taken.
    pub(crate) fn close(&self, request_id: &str) -> Option<Value> {
        let mut state = self.lock();
        let at = state
            .open
            .iter()
            .position(|open| open.ask.request_id == request_id)?;
        let Open { ask, answer, .. } = state.open.remove(at);
        if state.past.len() >= MAX_PAST {
            state.past.pop_front();
        }
        state.past.push_back(Past {
            request_id: ask.request_id,
            answer: answer.clone(),
        });
        answer
    }

    /// Takes an answer. `over` says that the turn takes nothing more.
    pub(crate) fn answer(
        &self,
        request_id: &str,
        answer: Value,
        by: By,
        over: bool,
    ) -> Result<Answered, AnswerError> {
        let mut state = self.lock();
        let Some(open) = state.find(request_id) else {
            let past = state.remembered(request_id).ok_or(AnswerError::Unknown)?;
            return past
                .answer
                .as_ref()
                .map_or(Err(AnswerError::Late), |given| again(given, &answer));
        };
        if let Some(given) = &open.answer {
            return again(given, &answer);
        }
        if over {
            return Err(AnswerError::Late);
        }
        let fits = match by {
            By::Human => open.ask.takes(&answer),
            By::Program => open.authorization,
        };
        if !fits || !json::length(&answer).is_ok_and(|bytes| bytes <= MAX_ANSWER_BYTES) {
            return Err(AnswerError::Invalid);
        }
        open.answer = Some(answer);
        let waker = open.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(Answered::Accepted)
    }

    /// Whether the turn waits for anybody.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// Whether an answer to that question would be taken.
    pub(crate) fn takes(&self, request_id: &str) -> bool {
        self.lock()
            .find(request_id)
            .is_some_and(|open| open.answer.is_none())
    }

    /// What can be answered, in the order in which it was asked.
    pub(crate) fn list(&self) -> Vec<OpenAsk> {
        let state = self.lock();
        let unanswered = state.open.iter().filter(|open| open.answer.is_none());
        unanswered.map(|open| open.ask.clone()).collect()
    }
}

impl State {
    fn find(&mut self, request_id: &str) -> Option<&mut Open> {
        self.open
            .iter_mut()
            .find(|open| open.ask.request_id == request_id)
    }

    fn remembered(&self, request_id: &str) -> Option<&Past> {
        self.past.iter().find(|past| past.request_id == request_id)
    }
}

/// A further answer to what has one.
fn again(given: &Value, answer: &Value) -> Result<Answered, AnswerError> {
    if given == answer {
        Ok(Answered::Same)
    } else {
        Err(AnswerError::Different)
    }
}
