//! The run stream of [LangGraph Server](https://docs.langchain.com/langsmith/streaming):
//! server-sent events `metadata`, `messages`, `updates`, `values`, `custom`, `error` and `end`.
//!
//! The answer is an AI message that arrives in pieces, retrieval is tool calls and tool messages,
//! and our events are `custom` in addition. The decoder reads such streams and those of any
//! LangGraph service. This module has no clock and makes no random IDs: every ID is the run's ID
//! with a number. The rules are in `PROTOCOL.md`, section "LangGraph" (`[LG-nn]`), the vectors in
//! `tests/vectors/langgraph` and `tests/vectors/langgraph_streams`.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::wire::{Decode, Finish, Wire};
//! use ragwire::{End, Frame, LangGraph, Metadata};
//!
//! let wire = LangGraph::new("run-1").thread("thread-1");
//! let (mut encoder, mut bytes) = (wire.encoder(), BytesMut::new());
//! encoder.text("Yes.", &mut bytes).unwrap();
//! encoder.end(&End::completed(Metadata::default()), &mut bytes).unwrap();
//! assert!(bytes.starts_with(b"id: 0\nevent: metadata\ndata: {\"run_id\":\"run-1\""));
//!
//! let mut decoder = wire.decoder();
//! decoder.feed(&bytes);
//! assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
//! assert_eq!(decoder.finish(), Finish::Complete);
//! ```

mod decoder;
mod encoder;
mod incoming;
mod interrupt;
mod message;
mod state;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use self::decoder::LangGraphDecoder;
use self::encoder::LangGraphSpelling;
pub use self::interrupt::{Interrupt, resume};
use super::{Limits, Spelling, Wire};

/// The LangGraph wire, for one run.
///
/// The [module](self) has an example.
#[derive(Clone, Debug)]
pub struct LangGraph {
    run_id: String,
    thread_id: Option<String>,
    /// The prefix of the IDs of messages and calls, if it is not the run's ID.
    prefix: Option<String>,
    modes: Modes,
    /// The messages of the thread before the answer.
    messages: Arc<[Value]>,
    after: Option<u64>,
    parks: bool,
    answer_nodes: Vec<String>,
    continues: bool,
    limits: Limits,
}

impl LangGraph {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "text/event-stream";

    /// Creates the wire of a run without a thread.
    pub fn new(run_id: impl Into<String>) -> Self {
        Self {
            run_id: run_id.into(),
            thread_id: None,
            prefix: None,
            modes: Modes::default(),
            messages: Arc::new([]),
            after: None,
            parks: false,
            answer_nodes: Vec::new(),
            continues: false,
            limits: Limits::default(),
        }
    }

    /// Sets the thread of the run.
    #[must_use]
    pub fn thread(mut self, thread_id: impl Into<String>) -> Self {
        self.thread_id = Some(thread_id.into());
        self
    }

    /// Sets the events that the client asked for (`stream_mode`).
    #[must_use]
    pub fn modes(mut self, modes: Modes) -> Self {
        self.modes = modes;
        self
    }

    /// Sets the messages of the thread before the answer, with the question as the last one. They
    /// are JSON objects with `type`, `id` and `content`, and part of every `values` event, because
    /// a client replaces its whole state by that event.
    #[must_use]
    pub fn messages(mut self, messages: Vec<Value>) -> Self {
        self.messages = messages.into();
        self
    }

    /// Leaves out the events up to and including this number, for a client that reconnects with
    /// `Last-Event-ID`. Encode the turn from its first frame all the same: the events get the same
    /// numbers as the first time, in the same modes ([`EventId`]). Such a stream cannot begin with a
    /// snapshot.
    #[must_use]
    pub fn after(mut self, event: Option<u64>) -> Self {
        self.after = event;
        self
    }

    /// Ends the run at a question to a human, as LangGraph does at an interrupt; the client answers
    /// with `command.resume` in the next run. This is for journaled turns, whose answer continues
    /// in another stream. It has no effect on any other turn.
    #[must_use]
    pub fn parks(mut self) -> Self {
        self.parks = true;
        self
    }

    /// Sets the prefix of the IDs of messages and calls. Default: the run's ID. If a turn has
    /// several runs ([`parks`](Self::parks)), use the same prefix in all of them.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Sets the nodes of the graph whose text is the answer, for the decoder. The text of other
    /// nodes, for example of one that grades passages, becomes thoughts. Default: the text of every
    /// node of the graph itself is the answer, and that of its subgraphs is not.
    #[must_use]
    pub fn answer_nodes(mut self, nodes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.answer_nodes = nodes.into_iter().map(Into::into).collect();
        self
    }

    /// Reads a run that continues another one after an [`Interrupt`], for the decoder: its first
    /// text begins a paragraph, as the text of every further message does.
    #[must_use]
    pub fn continues(mut self) -> Self {
        self.continues = true;
        self
    }

    /// Sets the limits of an event and of the metadata, for both directions.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Creates a decoder for the stream of one run.
    pub fn decoder(&self) -> LangGraphDecoder {
        LangGraphDecoder::new(self)
    }
}

impl Wire for LangGraph {
    fn name(&self) -> &'static str {
        "langgraph"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(LangGraphSpelling::new(self))
    }
}

/// The events that a client asks for, by the names of `stream_mode`.
///
/// ```
/// use ragwire::wire::langgraph::Modes;
///
/// let modes = Modes::of(["messages-tuple", "debug"]);
/// assert!(modes.messages_tuple && !modes.values);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a set of flags that the protocol names"
)]
#[non_exhaustive]
pub struct Modes {
    /// The whole state: after the input, at a question and at the end.
    pub values: bool,
    /// Each message when it is complete, by the node that made it.
    pub updates: bool,
    /// Each piece of a message (`messages-tuple`, event `messages`).
    pub messages_tuple: bool,
    /// Each message so far (`messages`, events `messages/partial` and `messages/complete`).
    pub messages: bool,
    /// Our events.
    pub custom: bool,
}

impl Modes {
    /// No events but `metadata`, `error` and `end`.
    pub const NONE: Self = Self {
        values: false,
        updates: false,
        messages_tuple: false,
        messages: false,
        custom: false,
    };

    /// Reads the names of `stream_mode`. Names that this wire has no events for are ignored.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut modes = Self::NONE;
        for name in names {
            match name {
                "values" => modes.values = true,
                "updates" => modes.updates = true,
                "messages-tuple" => modes.messages_tuple = true,
                "messages" => modes.messages = true,
                "custom" => modes.custom = true,
                _ => {}
            }
        }
        modes
    }

    /// Whether whole messages are sent.
    fn has_whole_messages(self) -> bool {
        self.values || self.updates || self.messages
    }
}

impl Modes {
    /// The modes as letters, for the ID of an event; nothing for the default ones.
    fn letters(self) -> String {
        if self == Self::default() {
            return String::new();
        }
        let letters = self.flags().into_iter().filter(|(_, is_on)| *is_on);
        let letters: String = letters.map(|(letter, _)| letter).collect();
        if letters.is_empty() { "-".into() } else { letters }
    }

    fn flags(self) -> [(char, bool); 5] {
        [
            ('v', self.values),
            ('u', self.updates),
            ('t', self.messages_tuple),
            ('m', self.messages),
            ('c', self.custom),
        ]
    }
}

/// The `id` of an event: its number, and the modes by which it was counted. A client that
/// reconnects sends only this back.
///
/// ```
/// use ragwire::wire::langgraph::{EventId, Modes};
///
/// assert_eq!(EventId::parse("7"), Some(EventId::new(7, Modes::default())));
/// assert_eq!(EventId::parse("7u"), Some(EventId::new(7, Modes::of(["updates"]))));
/// assert_eq!(EventId::new(7, Modes::of(["updates"])).to_string(), "7u");
/// assert_eq!(EventId::parse("-1"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventId {
    /// The number of the event, from 0.
    pub number: u64,
    /// The modes of its stream.
    pub modes: Modes,
}

impl EventId {
    /// Creates the ID of an event.
    pub fn new(number: u64, modes: Modes) -> Self {
        Self { number, modes }
    }

    /// Reads an ID in the form that the encoder writes; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let at = text.find(|letter: char| !letter.is_ascii_digit());
        let (number, letters) = text.split_at(at.unwrap_or(text.len()));
        let number = number.parse().ok()?;
        let mut modes = if letters.is_empty() {
            Modes::default()
        } else {
            Modes::NONE
        };
        for letter in letters.chars().filter(|letter| *letter != '-') {
            match letter {
                'v' => modes.values = true,
                'u' => modes.updates = true,
                't' => modes.messages_tuple = true,
                'm' => modes.messages = true,
                'c' => modes.custom = true,
                _ => return None,
            }
        }
        let id = Self { number, modes };
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.number, self.modes.letters())
    }
}

impl Default for Modes {
    /// What `useStream` asks for, and our events.
    fn default() -> Self {
        Self {
            values: true,
            messages_tuple: true,
            custom: true,
            ..Self::NONE
        }
    }
}

/// The maximum size of the messages of one run in memory and in a `values` event; messages of tools
/// over it are left out of `values`. Twice the limit of an answer, so that an answer never
/// displaces the tools. A decoder accepts events up to this size, because services send their whole
/// state, passages included.
const MAX_STATE_BYTES: usize = 8 * 1024 * 1024;

/// The member that marks messages of this crate, so that a decoder of it does not take one fact
/// twice.
const MARK: &str = "ragwire";
/// A piece of the answer.
const MARK_TEXT: &str = "text";
/// A message made of an event that the stream also contains as `custom`.
const MARK_EVENT: &str = "event";
/// A message made of an event that the stream contains in no other form.
const MARK_NATIVE: &str = "native";
/// The member with the questions that a run waits for.
const INTERRUPT: &str = "__interrupt__";
