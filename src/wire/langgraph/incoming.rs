//! The messages of a run as frames: what is new in each of them, once, whether it arrives in
//! pieces, as a whole, or in the state.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value, json};

use super::message::{CITATIONS, REASONING};
use super::{INTERRUPT, MARK, MARK_EVENT, MARK_NATIVE};
use crate::event::{Custom, Event, InputRequested, Retract, Source, Sources, Thinking, ToolCall, ToolResult};
use crate::frame::{End, Frame};
use crate::metadata::{Citation, Metadata, Usage};
use crate::wire::answer::Answer;
use crate::wire::calls::{Call, Calls, MAX_OPEN_CALLS};
use crate::wire::decoded::Decoded;
use crate::wire::{DecodeError, Limits, object};

/// How many messages of a run are remembered. A run has a handful; one with more than this could
/// get a message again when a late state repeats it.
const MAX_SEEN: usize = 1024;
/// How many questions and tools are remembered.
const MAX_NAMES: usize = 64;
/// The members of a state that contain the answer in graphs without messages, by LangChain's
/// tutorials.
const ANSWER_MEMBERS: [&str; 4] = ["answer", "output", "response", "generation"];

/// How a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The next piece, unless its type says that it is whole.
    Piece,
    /// Everything so far.
    SoFar,
    /// The finished message.
    Whole,
}

/// Where a message comes from.
#[derive(Debug)]
pub(super) struct Sender {
    node: Option<String>,
    mark: Option<String>,
    /// Whether a subgraph sent it.
    is_nested: bool,
}

impl Sender {
    pub(super) fn new(node: Option<&str>, mark: &Value, is_nested: bool) -> Self {
        Self {
            node: node.map(str::to_owned),
            mark: mark.as_str().map(str::to_owned),
            is_nested,
        }
    }

    /// The sender of a whole message, which carries its mark itself.
    pub(super) fn of(message: &Map<String, Value>, node: Option<&str>, is_nested: bool) -> Self {
        let mark = message
            .get("response_metadata")
            .and_then(|metadata| metadata.get(MARK));
        Self::new(node, mark.unwrap_or(&Value::Null), is_nested)
    }

    fn has_mark(&self, mark: &str) -> bool {
        self.mark.as_deref() == Some(mark)
    }
}

/// The AI message that is being received.
#[derive(Debug, Default)]
struct Current {
    id: String,
    text: String,
    /// Characters of the answer that are this message's.
    characters: u64,
    /// Bytes of its thoughts.
    thought: usize,
    /// Whether `text` is not all of it, because it was interrupted by another message or is too
    /// long to be compared.
    is_partial: bool,
    has_calls: bool,
}

/// A call whose arguments are being received.
#[derive(Debug)]
struct CallPiece {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    args: String,
}

/// The state of a run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) decoded: Decoded,
    limits: Limits,
    answer_nodes: Vec<String>,
    /// Hashes of the IDs of messages and of the lists of documents.
    seen: VecDeque<u64>,
    current: Current,
    pieces: Vec<CallPiece>,
    calls: Calls,
    /// The questions so far.
    asked: VecDeque<String>,
    /// Characters of the answer so far.
    characters: u64,
    has_state: bool,
    /// The answer in the state, for a run that sends its text in no message.
    fallback: Option<String>,
    /// Whether our encoder wrote the stream, which then has an `end`.
    is_ours: bool,
    /// Whether the last message is a finished answer.
    is_answered: bool,
    /// Whether the run waits for a human.
    waits: bool,
    citations: Vec<Citation>,
    usage: Option<Usage>,
    tools: Vec<String>,
}

impl Run {
    pub(super) fn new(limits: Limits, answer_nodes: Vec<String>) -> Self {
        Self {
            decoded: Decoded::default(),
            limits,
            answer_nodes,
            seen: VecDeque::new(),
            current: Current::default(),
            pieces: Vec::new(),
            calls: Calls::default(),
            asked: VecDeque::new(),
            characters: 0,
            has_state: false,
            fallback: None,
            is_ours: false,
            is_answered: false,
            waits: false,
            citations: Vec::new(),
            usage: None,
            tools: Vec::new(),
        }
    }

    // ---- frames ----

    fn push(&mut self, frame: Frame) {
        // The caller stops at the end, and everything else is allowed before it.
        let pushed = self.decoded.push(frame);
        debug_assert!(pushed.is_ok(), "{pushed:?}");
    }

    fn emit(&mut self, event: impl Into<Event>) {
        let (event, timestamp) = (event.into(), None);
        self.push(Frame::Event { event, timestamp });
    }

    /// Adds text of the answer. Texts of two messages of another service are two paragraphs.
    fn answer(&mut self, text: &str, is_ours: bool) {
        if text.is_empty() {
            return;
        }
        let is_next = self.current.characters == 0 && self.characters > 0 && !is_ours;
        let text = if is_next {
            format!("\n\n{text}")
        } else {
            text.to_owned()
        };
        let characters = text.chars().count() as u64;
        self.characters += characters;
        self.current.characters += characters - if is_next { 2 } else { 0 };
        self.fallback = None;
        self.push(Frame::Text(text));
    }

    fn think(&mut self, content: &str) {
        if content.is_empty() {
            return;
        }
        let thought = Thinking::new(content);
        let id = &self.current.id;
        let thought = if id.is_empty() {
            thought
        } else {
            thought.id(id.as_str())
        };
        self.emit(thought);
    }

    /// Adds the calls whose arguments are complete now.
    fn flush(&mut self) {
        for piece in std::mem::take(&mut self.pieces) {
            let input = if piece.args.trim().is_empty() {
                json!({})
            } else {
                serde_json::from_str(&piece.args).unwrap_or(Value::String(piece.args))
            };
            self.call(piece.name, piece.id, input);
        }
    }

    fn call(&mut self, name: String, id: Option<String>, input: Value) {
        let tool = if name.is_empty() { "tool".to_owned() } else { name };
        if !self.tools.contains(&tool) && self.tools.len() < MAX_NAMES {
            self.tools.push(tool.clone());
        }
        let call = ToolCall::new(tool.as_str(), input);
        self.calls.open_bounded(Call {
            tool,
            id: id.clone().unwrap_or_default(),
            unnamed: id.is_none(),
        });
        self.emit(match id {
            Some(id) => call.call_id(id),
            None => call,
        });
    }

    fn remember(&mut self, what: &(impl Hash + ?Sized)) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        let hash = hasher.finish();
        let is_new = !self.seen.contains(&hash);
        if is_new {
            if self.seen.len() >= MAX_SEEN {
                self.seen.pop_front();
            }
            self.seen.push_back(hash);
        }
        is_new
    }

    // ---- messages ----

    pub(super) fn take_message(
        &mut self,
        message: Map<String, Value>,
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

    fn take_piece(&mut self, message: &Map<String, Value>, sender: &Sender) -> Result<(), DecodeError> {
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
        if !is_current || (self.current.characters, self.current.thought) == (0, 0) {
            let has_calls = is_current && self.current.has_calls;
            if !is_current || !has_calls {
                self.open(id);
            }
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

    fn take_whole(&mut self, message: &Map<String, Value>, sender: &Sender, form: Form) {
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
    fn take_calls(&mut self, message: &Map<String, Value>) {
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

    fn take_result(&mut self, mut message: Map<String, Value>, sender: &Sender) {
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

    fn take_removal(&mut self, message: &Map<String, Value>, sender: &Sender) {
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
        self.emit(Retract::new(kept));
    }

    /// Takes the citations and the usage of a message.
    fn take_extras(&mut self, message: &Map<String, Value>) {
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

    // ---- the state ----

    pub(super) fn take_update(
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

    pub(super) fn take_values(&mut self, mut values: Map<String, Value>) -> Result<(), DecodeError> {
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
    fn take_members(&mut self, members: &Map<String, Value>, is_nested: bool) {
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
    fn take_documents(&mut self, value: &Value) {
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

    pub(super) fn take_interrupts(&mut self, questions: Value) {
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

    pub(super) fn take_custom(&mut self, value: Value) {
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
            match event {
                Event::InputRequested(question) => {
                    let id = question.request_id.clone();
                    self.asked(&id);
                }
                Event::Retract(retract) => {
                    self.characters = self.characters.min(retract.kept);
                    self.current = Current::default();
                }
                _ => {}
            }
        }
        self.push(frame);
    }

    // ---- the end ----

    /// Returns `true` if the run needs no `end`, because it is answered or waits for a human.
    pub(super) fn is_finished(&self) -> bool {
        let has_calls = !self.pieces.is_empty();
        !self.is_ours && ((self.is_answered && !has_calls) || self.waits || self.fallback.is_some())
    }

    /// The end of a run that does not describe it.
    pub(super) fn own_end(&mut self) -> End {
        let mut metadata = Metadata::default()
            .citations(std::mem::take(&mut self.citations))
            .tools_used(std::mem::take(&mut self.tools));
        metadata.usage = self.usage.take();
        let mut end = if self.waits {
            End::stopped()
        } else {
            End::default()
        };
        end.metadata = metadata;
        end
    }

    pub(super) fn end(&mut self, end: End) {
        self.flush();
        let is_failed = matches!(end.status, crate::frame::Status::Failed(_));
        if let Some(text) = self.fallback.take().filter(|_| !is_failed) {
            self.answer(&text, false);
        }
        self.push(Frame::End(end));
    }
}

fn word<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name).and_then(Value::as_str)
}

/// The text and the thoughts of a message, in LangChain's forms and in those of its integrations.
fn contents(message: &Map<String, Value>) -> (String, String) {
    let (mut text, mut thought) = (String::new(), String::new());
    let kwargs = message.get("additional_kwargs");
    if let Some(reasoning) = kwargs.and_then(|kwargs| kwargs.get(REASONING)?.as_str()) {
        thought.push_str(reasoning);
    }
    match message.get("content") {
        Some(Value::String(content)) => text.push_str(content),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                if let Some(piece) = block.as_str() {
                    text.push_str(piece);
                    continue;
                }
                match block["type"].as_str() {
                    Some("text" | "text_delta" | "output_text") => {
                        text.push_str(block["text"].as_str().unwrap_or_default());
                    }
                    Some("reasoning") => {
                        thought.push_str(block["reasoning"].as_str().unwrap_or_default());
                        for summary in block["summary"].as_array().into_iter().flatten() {
                            thought.push_str(summary["text"].as_str().unwrap_or_default());
                        }
                    }
                    Some("thinking") => thought.push_str(block["thinking"].as_str().unwrap_or_default()),
                    Some("reasoning_content") => {
                        let content = &block["reasoning_content"];
                        thought.push_str(content["text"].as_str().unwrap_or_default());
                    }
                    // Calls, which are in members of their own, images and newer blocks.
                    _ => {}
                }
            }
        }
        _ => {}
    }
    (text, thought)
}

/// The content of a tool's message as a value: the JSON in it, the text of its blocks, or itself.
fn output(content: Value) -> Value {
    match content {
        Value::String(text) => match serde_json::from_str::<Value>(&text) {
            Ok(value) if value.is_object() || value.is_array() => value,
            _ => Value::String(text),
        },
        Value::Array(blocks) if blocks.iter().all(|block| block["text"].is_string()) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            output(Value::String(texts.collect::<Vec<_>>().join("\n")))
        }
        other => other,
    }
}

/// A document of LangChain as a source; `None` for anything else.
fn source(document: &Value) -> Option<Source> {
    let text = document["page_content"].as_str()?;
    let metadata = &document["metadata"];
    let name = |members: [&str; 3]| {
        let mut found = members.iter().filter_map(|member| metadata[*member].as_str());
        found.next().map(str::to_owned)
    };
    let document_id = name(["source", "url", "file_path"])
        .or_else(|| document["id"].as_str().map(str::to_owned))
        .unwrap_or_default();
    let chunk_id = document["id"]
        .as_str()
        .map_or_else(|| document_id.clone(), str::to_owned);
    let page = metadata["page"]
        .as_u64()
        .and_then(|page| u32::try_from(page).ok());
    // LangChain's loaders count pages from 0, our sources from 1.
    let pages = page.map(|page| page.saturating_add(1)).into_iter().collect();
    let source = Source::new(chunk_id, document_id, text, pages);
    Some(match name(["title", "name", "file_name"]) {
        Some(title) => source.title(title),
        None => source,
    })
}

/// The question of an interrupt: ours, a request of LangChain's human in the loop, or any value.
fn request(interrupt: &Value) -> InputRequested {
    let id = ["id", "interrupt_id"]
        .iter()
        .find_map(|name| interrupt[*name].as_str())
        .unwrap_or("interrupt");
    let value = interrupt.get("value").unwrap_or(&Value::Null);
    let action = ["action_requests", "action_request"]
        .iter()
        .filter_map(|name| value.get(*name))
        .map(|request| request.get(0).unwrap_or(request))
        .next();
    let prompt = ["prompt", "question", "description", "message"]
        .iter()
        .find_map(|name| value[*name].as_str().or_else(|| action?[*name].as_str()))
        .or_else(|| value.as_str())
        .map_or_else(|| value.to_string(), str::to_owned);
    let kind = value["kind"]
        .as_str()
        .unwrap_or_else(|| if action.is_some() { "approval" } else { "text" });
    let options = value.get("options").or_else(|| {
        value["review_configs"]
            .get(0)
            .and_then(|config| config.get("allowed_decisions"))
    });
    let options = options.and_then(|options| serde_json::from_value::<Vec<String>>(options.clone()).ok());
    let request = InputRequested::new(id, kind, prompt);
    match options {
        Some(options) => request.options(options),
        None => request,
    }
}
