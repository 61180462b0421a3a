//! The state of a run: updates, values, questions and custom events.

use serde_json::{Value, json};

use super::forms::{contents, request, source};
use super::{ANSWER_MEMBERS, Current, Form, MAX_NAMES, Run, Sender};
use crate::event::{Custom, Event, Source, Sources};
use crate::frame::Frame;
use crate::wire::langgraph::{INTERRUPT, Interrupt};
use crate::wire::members::{Members, word};
use crate::wire::{DecodeError, object};
impl Run {
    pub(in crate::wire::langgraph) fn take_update(
        &mut self,
        node: &str,
        update: Value,
        is_nested: bool,
    ) -> Result<(), DecodeError> {
        self.flush();
        let updates = match update {
            Value::Array(updates) => updates,
            update => vec![update],
        };
        for update in updates {
            let Value::Object(mut members) = update else {
                continue;
            };
            let messages = match members.shift_remove("messages") {
                Some(Value::Array(messages)) => messages,
                Some(message @ Value::Object(_)) => vec![message],
                _ => Vec::new(),
            };
            for message in messages {
                if let Value::Object(message) = message {
                    let sender = Sender::of(&message, Some(node), is_nested);
                    self.take_message(message, &sender, Form::Whole)?;
                }
            }
            self.take_members(&members, is_nested);
            if !members.is_empty()
                && let Ok(step) = Custom::new("updates", &json!({node: members}))
            {
                self.emit(step);
            }
        }
        Ok(())
    }

    pub(in crate::wire::langgraph) fn take_values(&mut self, mut values: Members) -> Result<(), DecodeError> {
        self.flush();
        let questions = values.shift_remove(INTERRUPT);
        let messages = match values.shift_remove("messages") {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        };
        let is_human = |message: &Value| matches!(message["type"].as_str(), Some("human" | "user"));
        let from = messages.iter().rposition(is_human).map_or(0, |at| at + 1);
        let is_first = !std::mem::replace(&mut self.has_state, true);
        for message in messages.into_iter().skip(from) {
            let Value::Object(message) = message else { continue };
            if is_first {
                // The state before the run.
                if let Some(id) = word(&message, "id") {
                    self.remember(id);
                }
            } else if message.contains_key("id") {
                let sender = Sender::of(&message, None, false);
                self.take_message(message, &sender, Form::Whole)?;
            } else if word(&message, "type") == Some("ai") {
                let (text, _) = contents(&message);
                self.propose(text);
            }
        }
        if !is_first {
            self.take_members(&values, false);
        }
        if let Some(questions) = questions {
            self.take_interrupts(questions);
        }
        Ok(())
    }

    /// Takes an answer that no message has contained so far.
    fn propose(&mut self, text: String) {
        if self.characters == 0 && !text.is_empty() {
            self.fallback = Some(text);
        }
    }

    /// Takes the members of a state besides its messages: the answer, and documents.
    fn take_members(&mut self, members: &Members, is_nested: bool) {
        for (name, value) in members {
            match value {
                Value::String(text) if ANSWER_MEMBERS.contains(&name.as_str()) && !is_nested => {
                    if !text.is_empty() && text.trim() == self.current.text.trim() {
                        self.is_answered = true;
                    } else {
                        self.propose(text.clone());
                    }
                }
                value => self.take_documents(value),
            }
        }
    }

    /// Takes a list of LangChain's documents as sources, once.
    pub(super) fn take_documents(&mut self, value: &Value) {
        let Some(list) = value.as_array().filter(|list| !list.is_empty()) else {
            return;
        };
        let sources: Option<Vec<Source>> = list.iter().map(source).collect();
        if let Some(sources) = sources
            && self.remember(&value.to_string())
        {
            self.emit(Sources::new(sources));
        }
    }

    pub(in crate::wire::langgraph) fn take_interrupts(&mut self, questions: Value) {
        self.flush();
        self.waits = true;
        let questions = match questions {
            Value::Array(questions) => questions,
            question => vec![question],
        };
        for question in questions {
            let request = request(&question);
            if !self.asked.contains(&request.request_id) {
                self.asked(&request.request_id);
                if self.interrupts.len() < MAX_NAMES {
                    let interrupt = Interrupt::read(&question, request.request_id.clone());
                    self.interrupts.push(interrupt);
                }
                self.emit(request);
            }
        }
    }

    fn asked(&mut self, request_id: &str) {
        if self.asked.len() >= MAX_NAMES {
            self.asked.pop_front();
        }
        self.asked.push_back(request_id.to_owned());
    }

    pub(in crate::wire::langgraph) fn take_custom(&mut self, value: Value) {
        self.flush();
        let frame = match value {
            Value::Object(members) if members.get("event").is_some_and(Value::is_string) => {
                object::read_event(members)
            }
            value => Custom::new("custom", &value).ok().map(|event| Frame::Event {
                event: event.into(),
                timestamp: None,
            }),
        };
        let Some(frame) = frame else { return };
        if let Frame::Event { event, .. } = &frame {
            if let Event::InputRequested(question) = event {
                let id = question.request_id.clone();
                self.asked(&id);
            } else if let Event::Retract(retract) = event {
                self.characters = self.characters.min(retract.kept);
                self.current = Current::default();
            }
        }
        self.push(frame);
    }
}
