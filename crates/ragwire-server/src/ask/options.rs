//! The flags of `ask`, merged with the environment.

use std::str::FromStr;

use ragwire::event::Mode;
use ragwire::http::AnyWire;
use ragwire::wire::{Decode, Wire};
use ragwire::{Framed, Ndjson, Sse};
use serde_json::{Map, Value, json};

use super::AskError;
use crate::client::{Server, ServerFlags};
use crate::settings::values::{BadValue, switch};

/// The groups of flags in `--help`.
const DOCUMENTS: &str = "Documents to search";
const TRUSTGRAPH: &str = "TrustGraph's services";

/// The flags of `ask`.
#[derive(Debug, clap::Args)]
pub struct AskOptions {
    /// The question; `-` or nothing reads it from stdin
    pub(super) prompt: Vec<String>,
    /// The question, as TrustGraph's programs take it
    #[arg(short, long, value_name = "QUESTION", conflicts_with = "prompt")]
    query: Option<String>,
    /// Print one JSON object: status, answer, citations, events
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    flags: AskFlags,
}

/// The flags that the environment can set too.
#[derive(Debug, Default, clap::Args)]
pub struct AskFlags {
    #[command(flatten)]
    server: ServerFlags,
    /// Session of the question, to ask a follow-up; by default each question has one of its own
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Wire of the answer: framed, sse, ndjson [default: framed]
    #[arg(long, value_name = "NAME")]
    wire: Option<WireName>,
    /// How to answer: agentic, direct [default: the server decides]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<Mode>,
    /// Search effort: none, low, medium, high, xhigh
    #[arg(long, value_name = "EFFORT", value_parser = effort)]
    effort: Option<String>,
    #[command(flatten)]
    filter: FilterFlags,
    /// Show the review of the evidence
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = switch)]
    review: Option<bool>,
    /// Wait for the whole answer in one piece; not with --wire or --mode
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = switch)]
    no_streaming: Option<bool>,
    /// Ask a TrustGraph service: graph-rag, document-rag; in one piece without --streaming
    #[arg(long, value_name = "NAME", help_heading = TRUSTGRAPH)]
    service: Option<ServiceName>,
    /// Stream the answer of --service
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = switch, help_heading = TRUSTGRAPH)]
    streaming: Option<bool>,
    /// Limits of --service, such as entity-limit=10
    #[arg(long, num_args = 1.., value_name = "NAME=NUMBER", help_heading = TRUSTGRAPH)]
    limit: Option<Vec<Limit>>,
}

/// The flags that say which documents are searched. A flag may be repeated: a document then needs one
/// of the values. The server checks them.
#[derive(Debug, Default, clap::Args)]
pub(super) struct FilterFlags {
    /// Search only documents in this folder and below
    #[arg(long, value_name = "FOLDER", help_heading = DOCUMENTS)]
    folder: Option<Vec<String>>,
    /// Search only documents of this kind, such as markdown or pdf
    #[arg(long, value_name = "KIND", visible_alias = "type", help_heading = DOCUMENTS)]
    kind: Option<Vec<String>>,
    /// Search only documents in this language, such as en
    #[arg(long, value_name = "CODE", help_heading = DOCUMENTS)]
    language: Option<Vec<String>>,
    /// Search only documents with this tag
    #[arg(long, value_name = "TAG", help_heading = DOCUMENTS)]
    tag: Option<Vec<String>>,
    /// Search only documents of this day and later: 2026-01-31, 2026-01, 2026
    #[arg(long, value_name = "DAY", help_heading = DOCUMENTS)]
    since: Option<String>,
    /// Search only documents of this day and earlier
    #[arg(long, value_name = "DAY", help_heading = DOCUMENTS)]
    until: Option<String>,
}

impl FilterFlags {
    fn over(self, environment: Self) -> Self {
        Self {
            folder: self.folder.or(environment.folder),
            kind: self.kind.or(environment.kind),
            language: self.language.or(environment.language),
            tag: self.tag.or(environment.tag),
            since: self.since.or(environment.since),
            until: self.until.or(environment.until),
        }
    }

    /// Returns the member `filter` of a request.
    fn json(self) -> Value {
        let lists = [
            ("folders", self.folder),
            ("kinds", self.kind),
            ("languages", self.language),
            ("tags", self.tag),
        ];
        let lists = lists
            .into_iter()
            .filter_map(|(name, list)| Some((name, json!(list?))));
        let days = [("since", self.since), ("until", self.until)];
        let days = days
            .into_iter()
            .filter_map(|(name, day)| Some((name, json!(day?))));
        let members: Map<String, Value> = lists
            .chain(days)
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        if members.is_empty() {
            Value::Null
        } else {
            Value::Object(members)
        }
    }
}

impl AskOptions {
    /// Fills missing flags from the environment. A flag overrides a variable that contradicts it.
    #[must_use]
    pub fn over(mut self, mut environment: AskFlags) -> Self {
        let flags = self.flags;
        if flags.no_streaming == Some(true) {
            (environment.wire, environment.mode, environment.streaming) = (None, None, None);
        }
        if flags.wire.is_some() || flags.mode.is_some() || flags.streaming == Some(true) {
            environment.no_streaming = None;
        }
        if flags.service.is_some() {
            (environment.wire, environment.mode, environment.session) = (None, None, None);
            (environment.effort, environment.review) = (None, None);
        } else if flags.native_only().next().is_some() {
            (environment.service, environment.limit) = (None, None);
        }
        self.flags = AskFlags {
            server: flags.server.over(environment.server),
            session: flags.session.or(environment.session),
            wire: flags.wire.or(environment.wire),
            mode: flags.mode.or(environment.mode),
            effort: flags.effort.or(environment.effort),
            filter: flags.filter.over(environment.filter),
            review: flags.review.or(environment.review),
            no_streaming: flags.no_streaming.or(environment.no_streaming),
            service: flags.service.or(environment.service),
            streaming: flags.streaming.or(environment.streaming),
            limit: flags.limit.or(environment.limit),
        };
        self
    }

    /// Returns the words of the question and the request, with the defaults.
    ///
    /// # Errors
    ///
    /// [`AskError::Usage`] for flags that contradict each other.
    pub(super) fn settle(self) -> Result<(Vec<String>, Target), AskError> {
        let flags = self.flags;
        let as_a_whole = flags.no_streaming.unwrap_or(false);
        if as_a_whole && flags.streaming == Some(true) {
            return Err(AskError::Usage(
                "no-streaming and streaming contradict each other".into(),
            ));
        }
        if flags.service.is_some()
            && let Some(name) = flags.native_only().next()
        {
            return Err(AskError::Usage(format!(
                "service and {name} contradict each other: TrustGraph's services do not support {name}"
            )));
        }
        if flags.service.is_none() && flags.limit.is_some() {
            return Err(AskError::Usage("limit requires service".into()));
        }
        let filter = flags.filter.json();
        let service = flags.service.map(|name| Service {
            name,
            filter: filter.clone(),
            streaming: flags.streaming.unwrap_or(false),
            limits: flags.limit.unwrap_or_default(),
        });
        for (given, name) in [(flags.wire.is_some(), "wire"), (flags.mode.is_some(), "mode")] {
            if as_a_whole && given {
                return Err(AskError::Usage(format!(
                    "no-streaming and {name} contradict each other: an answer in one piece does not support {name}"
                )));
            }
        }
        let wanted = Target {
            server: flags.server.server(),
            session: flags.session.map_or_else(own_session, Ok)?,
            wire: (!as_a_whole).then(|| flags.wire.unwrap_or_default()),
            mode: flags.mode,
            effort: flags.effort,
            filter,
            review: flags.review.unwrap_or(false),
            service,
        };
        Ok((self.query.map_or(self.prompt, |query| vec![query]), wanted))
    }
}

/// Returns the name of a session that no other question has, because questions of one session wait
/// for each other and change each other's meaning.
fn own_session() -> Result<String, AskError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| AskError::Usage(format!("no random numbers: {error}")))?;
    Ok(format!("ask-{:016x}", u64::from_be_bytes(random)))
}

impl AskFlags {
    /// Returns the names of the given flags that do not apply to TrustGraph's services.
    fn native_only(&self) -> impl Iterator<Item = &'static str> + use<> {
        let given = [
            ("wire", self.wire.is_some()),
            ("mode", self.mode.is_some()),
            ("session", self.session.is_some()),
            ("effort", self.effort.is_some()),
            ("review", self.review.is_some()),
        ];
        given
            .into_iter()
            .filter_map(|(name, given)| given.then_some(name))
    }
}

/// What to request from which server.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) server: Server,
    pub(super) session: String,
    /// `None` for an answer in one piece.
    pub(super) wire: Option<WireName>,
    pub(super) mode: Option<Mode>,
    pub(super) effort: Option<String>,
    /// The documents to search; `null` for all.
    pub(super) filter: Value,
    pub(super) review: bool,
    /// `None` for ragwire's own routes.
    pub(super) service: Option<Service>,
}

/// A question to one of TrustGraph's services.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: ServiceName,
    /// `true` streams over the WebSocket; `false` gets one piece over HTTP.
    pub(super) streaming: bool,
    pub(super) limits: Vec<Limit>,
    /// The documents to search; `null` for all.
    pub(super) filter: Value,
}

/// One of TrustGraph's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceName {
    GraphRag,
    DocumentRag,
}

impl ServiceName {
    /// Returns the name in the route and in messages.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::GraphRag => "graph-rag",
            Self::DocumentRag => "document-rag",
        }
    }
}

impl FromStr for ServiceName {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        choose(
            "service",
            text,
            &[Self::GraphRag, Self::DocumentRag],
            Self::as_str,
        )
    }
}

/// A limit of a request, by TrustGraph's name. The server checks the name and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) name: String,
    pub(super) value: u64,
}

impl FromStr for Limit {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
        let limit = parts.and_then(|(name, value)| {
            Some(Self {
                name: name.to_owned(),
                value: value.parse().ok()?,
            })
        });
        limit.ok_or_else(|| BadValue::new(format!("`{text}` is not a limit; write entity-limit=10")))
    }
}

/// One of ragwire's own wires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WireName {
    /// The default of the server.
    #[default]
    Framed,
    Sse,
    Ndjson,
}

impl WireName {
    const ALL: [Self; 3] = [Self::Framed, Self::Sse, Self::Ndjson];

    fn wire(self) -> AnyWire {
        match self {
            Self::Framed => Box::new(Framed::default()),
            Self::Sse => Box::new(Sse::default()),
            Self::Ndjson => Box::new(Ndjson::default()),
        }
    }

    pub(super) fn decoder(self) -> Box<dyn Decode> {
        match self {
            Self::Framed => Box::new(Framed::default().decoder()),
            Self::Sse => Box::new(Sse::default().decoder()),
            Self::Ndjson => Box::new(Ndjson::default().decoder()),
        }
    }

    /// Returns the media type without its parameters, for `Accept` and for comparison.
    pub(super) fn media_type(self) -> &'static str {
        essence(self.wire().content_type())
    }

    /// Returns whether the wire appends the message of a failure to the text (F-08), rather than
    /// only to the terminal (N-05).
    pub(super) fn has_failure_in_text(self) -> bool {
        self == Self::Framed
    }
}

impl FromStr for WireName {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        choose("wire", text, &Self::ALL, |name| name.wire().name())
    }
}

fn mode(text: &str) -> Result<Mode, BadValue> {
    choose("mode", text, &[Mode::Agentic, Mode::Direct], Mode::as_str)
}

/// The search efforts that the server knows.
const EFFORTS: [&str; 5] = ["none", "low", "medium", "high", "xhigh"];

fn effort(text: &str) -> Result<String, BadValue> {
    choose("effort", text, &EFFORTS, |effort| effort).map(str::to_owned)
}

fn choose<T: Copy>(
    kind: &str,
    text: &str,
    choices: &[T],
    word: impl Fn(T) -> &'static str,
) -> Result<T, BadValue> {
    let chosen = choices.iter().find(|choice| word(**choice) == text);
    chosen.copied().ok_or_else(|| {
        let words: Vec<_> = choices.iter().map(|choice| word(*choice)).collect();
        BadValue::new(format!(
            "unknown {kind} `{text}`: write one of {}",
            words.join(", ")
        ))
    })
}

/// Returns a media type without its parameters.
pub(super) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}
