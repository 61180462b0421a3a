//! The messages of a run as frames: what is new in each of them, once, whether it arrives in
//! pieces, as a whole, or in the state.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use crate::event::{Event, Thinking, ToolCall};
use crate::frame::{End, Frame};
use crate::metadata::{Citation, Metadata, Usage};
use crate::wire::Limits;
use crate::wire::calls::{Call, Calls};
use crate::wire::decoded::Decoded;
use crate::wire::langgraph::{Interrupt, MARK};
use crate::wire::members::Members;

mod forms;
mod transcript;
mod values;

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
    pub(super) fn of(message: &Members, node: Option<&str>, is_nested: bool) -> Self {
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
    /// Those at which the run ends.
    pub(super) interrupts: Vec<Interrupt>,
    /// Characters of the answer so far.
    characters: u64,
    /// Whether the run continues another one.
    continues: bool,
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
    pub(super) fn new(limits: Limits, answer_nodes: Vec<String>, continues: bool) -> Self {
        Self {
            decoded: Decoded::default(),
            limits,
            answer_nodes,
            seen: VecDeque::new(),
            current: Current::default(),
            pieces: Vec::new(),
            calls: Calls::default(),
            asked: VecDeque::new(),
            interrupts: Vec::new(),
            continues,
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
        let has_text = self.characters > 0 || self.continues;
        let is_next = self.current.characters == 0 && has_text && !is_ours;
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
