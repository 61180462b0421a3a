//! The open questions of a turn, and which answers they accept: one answer per question, once.
//!
//! This module knows no runtime and no clock: wakers go in, and the caller decides when it has
//! waited long enough. Its lock is never held together with the queue's.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use serde_json::Value;

use crate::json;
use crate::turn::sync::{Mutex, MutexGuard};

/// The maximum number of open questions per turn: more than a person answers on one page.
const MAX_OPEN: usize = 16;
/// The maximum number of closed questions that a turn remembers, so that a repeated answer is
/// recognized. The oldest is evicted first. Twice `MAX_OPEN`, so that no question is evicted while
/// another one that was open with it still waits.
const MAX_CLOSED: usize = 2 * MAX_OPEN;
/// The maximum length of an answer in bytes of JSON: a few pages of text. The turn remembers the
/// answer, and one event on the wire contains it.
pub(super) const MAX_ANSWER_BYTES: usize = 16 * 1024;

/// The `kind` of a question that is answered by yes or no.
pub(super) const APPROVAL: &str = "approval";
/// The `kind` of a question with a free answer.
pub(super) const TEXT: &str = "text";

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenQuestion {
    /// Names the question in its answer.
    pub request_id: String,
    /// `approval`, `choice`, `text`, `authorization` or a kind that the application defines.
    pub kind: String,
    /// The text of the question; for an authorization, the name of the connection.
    pub prompt: String,
    /// The answers to choose from. Empty if any answer is valid.
    pub options: Vec<String>,
}

impl OpenQuestion {
    /// Returns the answer that approves or rejects this question: the first or the last option.
    ///
    /// Returns `None` if the question is not an `approval` or has fewer than two options.
    pub fn verdict(&self, approved: bool) -> Option<Value> {
        let verdict = match self.options.as_slice() {
            [yes, .., no] if self.kind == APPROVAL => Some(if approved { yes } else { no }),
            _ => None,
        };
        verdict.map(|word| word.as_str().into())
    }

    /// Returns `true` if a human may give this answer.
    fn allows(&self, answer: &Value) -> bool {
        if self.options.is_empty() || self.kind == TEXT {
            // On the wire `null` looks the same as a missing answer.
            return !answer.is_null();
        }
        self.options.iter().any(|option| answer == option.as_str())
    }
}

/// How a valid answer was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer was accepted and goes to the orchestrator.
    Accepted,
    /// An equal answer was accepted before. Nothing has changed.
    Same,
}

/// Why an answer was not accepted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The turn has not asked this question, or does not remember it.
    #[error("unknown question")]
    Unknown,
    /// A different answer was accepted before.
    #[error("question already has a different answer")]
    Different,
    /// The question no longer waits: its time is up, it was withdrawn, or the turn has ended.
    #[error("question is closed")]
    Late,
    /// The answer does not fit the question. Another answer may be accepted.
    #[error("answer does not fit the question")]
    Invalid,
    /// The host that runs the turn does not respond. Repeating the same answer is safe.
    #[error("the turn's host is not reachable")]
    Unavailable,
}

impl AnswerError {
    /// Returns a stable name for programs.
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

/// Why a question was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// Its ID names another question of this turn.
    InUse,
    /// Too many questions are open.
    TooMany,
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerSource {
    /// Anyone who sees the question.
    Human,
    /// The program that received the result of an authorization.
    Program,
}

/// The questions of one turn.
#[derive(Debug, Default)]
pub(crate) struct Questions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: Vec<Open>,
    closed: VecDeque<Closed>,
}

/// A question that the orchestrator waits for, or whose answer it has not picked up yet.
#[derive(Debug)]
struct Open {
    question: OpenQuestion,
    /// Only a program can give its real outcome.
    authorization: bool,
    answer: Option<Value>,
    /// The reader's wire does not show it before the end.
    is_hidden: bool,
    waker: Option<Waker>,
}

/// A question that no longer waits.
#[derive(Debug)]
struct Closed {
    request_id: String,
    answer: Option<Value>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing below panics in the middle of a change.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Opens a question for answers. An ID names one question per turn, so that no answer is taken
    /// for another question's.
    pub(crate) fn open(&self, question: OpenQuestion, authorization: bool) -> Result<(), OpenError> {
        let mut state = self.lock();
        if state.find(&question.request_id).is_some() || state.find_closed(&question.request_id).is_some() {
            return Err(OpenError::InUse);
        }
        if state.open.len() >= MAX_OPEN {
            return Err(OpenError::TooMany);
        }
        state.open.push(Open {
            question,
            authorization,
            answer: None,
            is_hidden: false,
            waker: None,
        });
        Ok(())
    }

    /// Marks a question that the reader does not see, and wakes the orchestrator that waits for it.
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

    /// Waits until the question has an answer.
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

    /// Closes the question and returns its answer, if there is one. It accepts no further answer.
    pub(crate) fn close(&self, request_id: &str) -> Option<Value> {
        let mut state = self.lock();
        let index = state
            .open
            .iter()
            .position(|open| open.question.request_id == request_id)?;
        let Open { question, answer, .. } = state.open.remove(index);
        if state.closed.len() >= MAX_CLOSED {
            state.closed.pop_front();
        }
        state.closed.push_back(Closed {
            request_id: question.request_id,
            answer: answer.clone(),
        });
        answer
    }

    /// Accepts or rejects an answer. `is_finished` means that the turn has ended.
    pub(crate) fn answer(
        &self,
        request_id: &str,
        answer: Value,
        source: AnswerSource,
        is_finished: bool,
    ) -> Result<AnswerOutcome, AnswerError> {
        let mut state = self.lock();
        let Some(open) = state.find(request_id) else {
            let closed = state.find_closed(request_id).ok_or(AnswerError::Unknown)?;
            return closed
                .answer
                .as_ref()
                .map_or(Err(AnswerError::Late), |first| repeated(first, &answer));
        };
        if let Some(first) = &open.answer {
            return repeated(first, &answer);
        }
        if is_finished {
            return Err(AnswerError::Late);
        }
        let is_allowed = match source {
            AnswerSource::Human => open.question.allows(&answer),
            AnswerSource::Program => open.authorization,
        };
        if !is_allowed || !json::length(&answer).is_ok_and(|bytes| bytes <= MAX_ANSWER_BYTES) {
            return Err(AnswerError::Invalid);
        }
        open.answer = Some(answer);
        let waker = open.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(AnswerOutcome::Accepted)
    }

    /// Returns `true` if the turn waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().open.is_empty()
    }

    /// Returns `true` if the question would accept an answer.
    pub(crate) fn accepts(&self, request_id: &str) -> bool {
        self.lock()
            .find(request_id)
            .is_some_and(|open| open.answer.is_none())
    }

    /// Returns the questions without an answer, in the order in which they were asked.
    pub(crate) fn list(&self) -> Vec<OpenQuestion> {
        let state = self.lock();
        let unanswered = state.open.iter().filter(|open| open.answer.is_none());
        unanswered.map(|open| open.question.clone()).collect()
    }
}

impl State {
    fn find(&mut self, request_id: &str) -> Option<&mut Open> {
        self.open
            .iter_mut()
            .find(|open| open.question.request_id == request_id)
    }

    fn find_closed(&self, request_id: &str) -> Option<&Closed> {
        self.closed.iter().find(|closed| closed.request_id == request_id)
    }
}

/// Compares a further answer with the accepted one.
fn repeated(first: &Value, answer: &Value) -> Result<AnswerOutcome, AnswerError> {
    if first == answer {
        Ok(AnswerOutcome::Same)
    } else {
        Err(AnswerError::Different)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_approval_with_two_options_has_a_verdict() {
        for (kind, options, verdicts) in [
            (APPROVAL, &["Yes", "No"][..], Some(("Yes", "No"))),
            (APPROVAL, &["Yes", "Later", "No"], Some(("Yes", "No"))),
            (APPROVAL, &["Yes"], None),
            (APPROVAL, &[], None),
            ("choice", &["A", "B"], None),
        ] {
            let question = OpenQuestion {
                request_id: "r".to_owned(),
                kind: kind.to_owned(),
                prompt: "?".to_owned(),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
            };
            let [yes, no] = [true, false].map(|approved| question.verdict(approved));
            let expected = verdicts.map(|(yes, no)| (yes.into(), no.into()));
            assert_eq!(yes.zip(no), expected, "{kind} {options:?}");
        }
    }
}
