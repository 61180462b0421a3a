//! Messages, which arrive in pieces, as everything so far, or as a whole.

use serde_json::Value;

use super::forms::{contents, output};
use super::{CallPiece, Current, Form, Run, Sender};
use crate::event::{Retract, ToolResult};
use crate::metadata::{Citation, Usage};
use crate::wire::DecodeError;
use crate::wire::answer::Answer;
use crate::wire::calls::MAX_OPEN_CALLS;
use crate::wire::langgraph::message::CITATIONS;
use crate::wire::langgraph::{MARK_EVENT, MARK_NATIVE};
use crate::wire::members::{Members, word};
impl Run {
    pub(in crate::wire::langgraph) fn take_message(
        &mut self,
        message: Members,
        sender: &Sender,
        form: Form,
    ) -> Result<(), DecodeError> {
        let Some(kind) = message.get("type").and_then(Value::as_str) else {
            return Err(DecodeError::BadEvent);
        };
        self.is_ours |= sender.mark.is_some();
        match kind {
            "AIMessageChunk" if form == Form::Piece => self.take_piece(&message, sender),
            "ai" | "assistant" | "AIMessage" | "AIMessageChunk" => {
                let form = if form == Form::Piece { Form::Whole } else { form };
                self.take_whole(&message, sender, form);
                Ok(())
            }
            "tool" | "ToolMessage" | "ToolMessageChunk" => {
                self.take_result(message, sender);
                Ok(())
            }
            "remove" | "RemoveMessage" => {
                self.take_removal(&message, sender);
                Ok(())
            }
            // Questions and prompts.
            _ => Ok(()),
        }
    }

    /// Makes `id` the current message. Returns `false` if it was received before.
    fn open(&mut self, id: &str) -> bool {
        if self.current.id == id && (self.current.characters > 0 || self.current.thought > 0) {
            return true;
        }
        let is_new = id.is_empty() || self.remember(id);
        self.current = Current {
            id: id.to_owned(),
            is_partial: !is_new,
            ..Current::default()
        };
        is_new
    }

    fn is_answer(&self, sender: &Sender) -> bool {
        let is_chosen = match &sender.node {
            Some(node) => self.answer_nodes.is_empty() || self.answer_nodes.contains(node),
            None => true,
        };
        is_chosen && !sender.is_nested
    }

    /// Takes a piece of text, and keeps it to compare it with the whole message.
    fn take_text(&mut self, text: &str, sender: &Sender) {
        if !self.current.is_partial {
            if self.current.text.len() + text.len() > Answer::MAX_BYTES {
                self.current.is_partial = true;
                self.current.text = String::new();
            } else {
                self.current.text.push_str(text);
            }
        }
        if self.is_answer(sender) {
            self.answer(text, sender.mark.is_some());
        } else {
            self.think(text);
        }
    }

    fn take_piece(&mut self, message: &Members, sender: &Sender) -> Result<(), DecodeError> {
        let id = word(message, "id").unwrap_or_default();
        if sender.has_mark(MARK_EVENT) {
            self.remember(id);
            return Ok(());
        }
        let (text, thought) = contents(message);
        let chunks = message.get("tool_call_chunks").and_then(Value::as_array);
        let chunks = chunks.filter(|chunks| !chunks.is_empty());
        let is_current = self.current.id == id;
        if !is_current || chunks.is_none() {
            self.flush();
        }
        // Without an ID, a message of which nothing was sent is followed by another one.
        let sent = (self.current.characters, self.current.thought);
        let is_next = id.is_empty() && sent == (0, 0) && !self.current.has_calls;
        if !is_current || is_next {
            self.open(id);
        }
        if !is_current || !text.is_empty() || chunks.is_some() {
            self.is_answered = false;
            self.waits = false;
        }
        self.current.thought += thought.len();
        self.think(&thought);
        self.take_text(&text, sender);
        match chunks {
            Some(chunks) => {
                self.current.has_calls = true;
                for chunk in chunks {
                    self.take_call_piece(chunk)?;
                }
            }
            None => self.take_calls(message),
        }
        self.take_extras(message);
        let is_last = ["finish_reason", "stop_reason", "done_reason"]
            .iter()
            .any(|name| {
                let metadata = message.get("response_metadata");
                metadata.is_some_and(|metadata| metadata.get(*name).is_some_and(Value::is_string))
            })
            || word(message, "chunk_position") == Some("last");
        if is_last && !sender.is_nested && !self.current.has_calls {
            self.is_answered = true;
        }
        Ok(())
    }

    fn take_whole(&mut self, message: &Members, sender: &Sender, form: Form) {
        self.flush();
        let id = word(message, "id").unwrap_or_default();
        let (text, thought) = contents(message);
        let has_calls = message
            .get("tool_calls")
            .and_then(Value::as_array)
            .is_some_and(|calls| !calls.is_empty());
        // A service that leaves out the IDs of pieces repeats the text under an ID.
        let is_same = self.current.id == id && !id.is_empty()
            || self.current.id.is_empty() && !text.is_empty() && self.current.text == text;
        if is_same {
            self.remember(id);
        } else if !self.open(id) {
            return;
        }
        let events_follow = sender.has_mark(MARK_EVENT);
        if !events_follow {
            let new = thought.get(self.current.thought..).unwrap_or_default().to_owned();
            self.current.thought = thought.len();
            self.think(&new);
        }
        if !self.current.is_partial {
            match text.strip_prefix(self.current.text.as_str()) {
                Some(rest) => self.take_text(rest, sender),
                None => {
                    if self.is_answer(sender) {
                        self.retract(self.characters - self.current.characters);
                    }
                    self.current.text.clear();
                    self.take_text(&text, sender);
                }
            }
        }
        if !events_follow {
            self.take_calls(message);
        }
        if !is_same {
            self.take_extras(message);
        }
        if form == Form::Whole && !sender.is_nested {
            self.is_answered = !has_calls;
            self.waits = false;
        }
    }

    fn take_call_piece(&mut self, chunk: &Value) -> Result<(), DecodeError> {
        let index = chunk["index"].as_u64();
        let known = self
            .pieces
            .iter()
            .position(|piece| piece.index == index && index.is_some());
        let at = match known {
            Some(at) => at,
            None => {
                if self.pieces.len() >= MAX_OPEN_CALLS {
                    self.flush();
                }
                self.pieces.push(CallPiece {
                    index,
                    id: None,
                    name: String::new(),
                    args: String::new(),
                });
                self.pieces.len() - 1
            }
        };
        let piece = &mut self.pieces[at];
        if piece.id.is_none() {
            piece.id = chunk["id"].as_str().map(str::to_owned);
        }
        if piece.name.is_empty() {
            chunk["name"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut piece.name);
        }
        piece.args.push_str(chunk["args"].as_str().unwrap_or_default());
        let bytes: usize = self.pieces.iter().map(|piece| piece.args.len()).sum();
        if bytes > self.limits.max_line_bytes {
            return Err(DecodeError::LineTooLong);
        }
        Ok(())
    }

    /// Takes the calls of a message that are whole and new.
    fn take_calls(&mut self, message: &Members) {
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str();
            if id.is_none_or(|id| !self.calls.has(id) && self.remember(&("call", id))) {
                let name = call["name"].as_str().unwrap_or_default().to_owned();
                let input = call.get("args").cloned().unwrap_or_default();
                self.current.has_calls = true;
                self.call(name, id.map(str::to_owned), input);
            }
        }
    }

    fn take_result(&mut self, mut message: Members, sender: &Sender) {
        self.flush();
        let id = word(&message, "id").unwrap_or_default().to_owned();
        let is_new = id.is_empty() || self.remember(&id);
        if !is_new || sender.has_mark(MARK_EVENT) {
            return;
        }
        self.is_answered = false;
        self.waits = false;
        let call_id = word(&message, "tool_call_id").map(str::to_owned);
        let name = word(&message, "name").unwrap_or_default().to_owned();
        let answered = self
            .calls
            .answered_by(call_id.as_deref(), &name)
            .map(|(at, _)| at);
        let call = answered.and_then(|at| self.calls.take(at));
        let tool = match call {
            Some(call) if name.is_empty() => call.tool,
            _ if name.is_empty() => "tool".to_owned(),
            _ => name,
        };
        let is_error = word(&message, "status") == Some("error");
        let artifact = message.shift_remove("artifact").unwrap_or_default();
        let result = if sender.has_mark(MARK_NATIVE) {
            artifact.clone()
        } else {
            output(message.shift_remove("content").unwrap_or_default())
        };
        let mut event = ToolResult::new(tool, result);
        if let Some(call_id) = call_id {
            event = event.call_id(call_id);
        }
        if is_error {
            event = event.is_error(true);
        }
        self.emit(event);
        self.take_documents(&artifact);
    }

    fn take_removal(&mut self, message: &Members, sender: &Sender) {
        let id = word(message, "id").unwrap_or_default();
        if sender.has_mark(MARK_EVENT) {
            return;
        }
        if id == self.current.id && self.current.characters > 0 {
            self.retract(self.characters - self.current.characters);
        } else if id == "__remove_all__" && self.characters > 0 {
            self.retract(0);
        }
    }

    fn retract(&mut self, kept: u64) {
        self.characters = kept;
        self.current.characters = 0;
        self.current.text.clear();
        self.emit(Retract::new(kept));
    }

    /// Takes the citations and the usage of a message.
    fn take_extras(&mut self, message: &Members) {
        let kwargs = message.get("additional_kwargs");
        let citations = kwargs
            .and_then(|kwargs| kwargs.get(CITATIONS))
            .and_then(|citations| serde_json::from_value::<Vec<Citation>>(citations.clone()).ok());
        if let Some(citations) = citations {
            self.citations = citations;
        }
        let Some(Value::Object(tokens)) = message.get("usage_metadata") else {
            return;
        };
        let count = |name: &str| tokens.get(name).and_then(Value::as_u64);
        let usage = Usage {
            input_tokens: count("input_tokens"),
            output_tokens: count("output_tokens"),
            ..Usage::default()
        };
        self.usage = Some(match &self.usage {
            Some(before) => before.clone().plus(&usage),
            None => usage,
        });
    }
}
