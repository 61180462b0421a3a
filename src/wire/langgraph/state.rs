//! The messages that a run has made so far, within a limit.

use serde_json::Value;

use super::MAX_STATE_BYTES;
use super::message::{self, Last, ToolCall};
use crate::wire::answer::Answer;

/// The complete messages of a run.
#[derive(Debug, Default)]
pub(super) struct State {
    messages: Vec<Value>,
    bytes: usize,
}

impl State {
    pub(super) fn messages(&self) -> &[Value] {
        &self.messages
    }

    /// Adds a message. Over the limit only messages with text of the answer are kept, which have a
    /// limit of their own.
    pub(super) fn push(&mut self, message: Value) {
        let bytes = message.to_string().len();
        let has_answer = message["type"] == "ai" && message["content"] != "";
        if has_answer || self.bytes.saturating_add(bytes) <= MAX_STATE_BYTES {
            self.bytes += bytes;
            self.messages.push(message);
        }
    }

    /// Completes the last message with text and moves it to the end, because programs take the last
    /// message for the answer. Returns its ID.
    pub(super) fn complete(&mut self, last: &Last) -> Option<String> {
        let has_text = |message: &Value| message["type"] == "ai" && message["content"] != "";
        let at = self.messages.iter().rposition(has_text)?;
        let mut message = self.messages.remove(at);
        last.complete(&mut message);
        let id = message["id"].as_str().map(str::to_owned);
        self.messages.push(message);
        id
    }

    /// Keeps the first `kept` characters of the answer and withdraws the rest. Returns how many of
    /// them are not in these messages.
    pub(super) fn retract(&mut self, kept: u64) -> u64 {
        let mut left = usize::try_from(kept).unwrap_or(usize::MAX);
        for message in &mut self.messages {
            let Some(text) = message["content"].as_str().filter(|_| message["type"] == "ai") else {
                continue;
            };
            match text.char_indices().nth(left) {
                Some((at, _)) => {
                    message["content"] = text[..at].into();
                    left = 0;
                }
                None => left -= text.chars().count(),
            }
        }
        left as u64
    }

    /// Number of characters of the answer in these messages.
    pub(super) fn characters(&self) -> u64 {
        let texts = self.messages.iter().filter(|message| message["type"] == "ai");
        texts
            .filter_map(|message| message["content"].as_str())
            .map(|text| text.chars().count() as u64)
            .sum()
    }
}

/// The AI message that is being written.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) id: String,
    pub(super) text: Answer,
    pub(super) reasoning: Answer,
    pub(super) calls: Vec<ToolCall>,
    /// Size of the calls.
    call_bytes: usize,
    /// Length of the message when `messages/partial` was last sent.
    pub(super) shown: usize,
    /// Length of the thoughts that were sent.
    pub(super) thought: usize,
}

impl Open {
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            text: Answer::default(),
            reasoning: Answer::default(),
            calls: Vec::new(),
            call_bytes: 0,
            shown: 0,
            thought: 0,
        }
    }

    /// Adds a call and returns its number. A call over the limit is not kept: it is sent, but is
    /// not part of the whole message.
    pub(super) fn add_call(&mut self, call: ToolCall) -> usize {
        let number = self.calls.len();
        self.call_bytes = self
            .call_bytes
            .saturating_add(call.args.to_string().len() + call.id.len() + call.name.len());
        if self.call_bytes <= MAX_STATE_BYTES {
            self.calls.push(call);
        }
        number
    }

    /// The message so far.
    pub(super) fn message(&self, mark: &str) -> Value {
        message::ai(
            &self.id,
            self.text.text(),
            self.reasoning.text(),
            &self.calls,
            mark,
        )
    }
}
