//! The flags of `ask`, and what they say together with the environment.

use std::str::FromStr;

use ragwire::event::Mode;
use ragwire::http::AnyWire;
use ragwire::wire::{Decode, Wire};
use ragwire::{Framed, Ndjson, Sse};

use super::AskError;
use crate::settings::Settings;
use crate::settings::values::BadValue;

/// The session of who names none.
const SESSION: &str = "cli";

/// The flags of `ask`.
#[derive(Debug, clap::Args)]
pub struct AskOptions {
    /// The question; `-` or nothing reads it from stdin
    pub(super) prompt: Vec<String>,
    /// The question, as TrustGraph's own programs take it
    #[arg(short, long, value_name = "QUESTION", conflicts_with = "prompt")]
    query: Option<String>,
    #[command(flatten)]
    flags: AskFlags,
}

/// The flags that may also stand in the environment.
#[derive(Debug, Default, clap::Args)]
pub struct AskFlags {
    /// The server's address [default: http://127.0.0.1:8787]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The session that the question belongs to [default: cli]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The wire that the answer comes on: framed, sse, ndjson [default: framed]
    #[arg(long, value_name = "NAME")]
    wire: Option<WireName>,
    /// How it is answered: agentic, direct [default: as the server likes]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<Mode>,
    /// How much thought it is worth: none, low, medium, high, xhigh
    #[arg(long, value_name = "EFFORT")]
    effort: Option<String>,
    /// Have the evidence judged before it is used
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    review: Option<bool>,
    /// Wait for the whole answer in one piece; not with --wire or --mode
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    no_streaming: Option<bool>,
    /// Ask as TrustGraph's clients do: graph-rag, document-rag; in one piece unless --streaming says otherwise
    #[arg(long, value_name = "NAME")]
    service: Option<ServiceName>,
    /// Have the answer as it comes
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    streaming: Option<bool>,
    /// Limits of --service, such as entity-limit=10
    #[arg(long, num_args = 1.., value_name = "NAME=NUMBER")]
    limit: Option<Vec<Limit>>,
}

impl AskOptions {
    /// What no flag says is taken from the environment. A variable that contradicts a flag gives way to it.
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
        } else if flags.of_our_own().next().is_some() {
            (environment.service, environment.limit) = (None, None);
        }
        self.flags = AskFlags {
            server: flags.server.or(environment.server),
            session: flags.session.or(environment.session),
            wire: flags.wire.or(environment.wire),
            mode: flags.mode.or(environment.mode),
            effort: flags.effort.or(environment.effort),
            review: flags.review.or(environment.review),
            no_streaming: flags.no_streaming.or(environment.no_streaming),
            service: flags.service.or(environment.service),
            streaming: flags.streaming.or(environment.streaming),
            limit: flags.limit.or(environment.limit),
        };
        self
    }

    /// What is to be asked of whom, with the defaults; the question itself comes later.
    ///
    /// # Errors
    ///
    /// [`AskError::Usage`] for flags that cannot hold together.
    pub(super) fn settle(self) -> Result<(Vec<String>, Wanted), AskError> {
        let flags = self.flags;
        let as_a_whole = flags.no_streaming.unwrap_or(false);
        if as_a_whole && flags.streaming == Some(true) {
            return Err(AskError::Usage(
                "no-streaming and streaming contradict each other".into(),
            ));
        }
        if flags.service.is_some()
            && let Some(name) = flags.of_our_own().next()
        {
            return Err(AskError::Usage(format!(
                "service and {name} contradict each other: TrustGraph's services know no {name}"
            )));
        }
        if flags.service.is_none() && flags.limit.is_some() {
            return Err(AskError::Usage("limit goes with service alone".into()));
        }
        let service = flags.service.map(|name| Service {
            name,
            streaming: flags.streaming.unwrap_or(false),
            limits: flags.limit.unwrap_or_default(),
        });
        for (given, name) in [(flags.wire.is_some(), "wire"), (flags.mode.is_some(), "mode")] {
            if as_a_whole && given {
                return Err(AskError::Usage(format!(
                    "no-streaming and {name} contradict each other: the whole answer in one piece knows no {name}"
                )));
            }
        }
        let wanted = Wanted {
            server: flags
                .server
                .unwrap_or_else(|| format!("http://{}", Settings::default().listen)),
            session: flags.session.unwrap_or_else(|| SESSION.to_owned()),
            wire: (!as_a_whole).then(|| flags.wire.unwrap_or_default()),
            mode: flags.mode,
            effort: flags.effort,
            review: flags.review.unwrap_or(false),
            service,
        };
        Ok((self.query.map_or(self.prompt, |query| vec![query]), wanted))
    }
}

impl AskFlags {
    /// The flags given that mean nothing to TrustGraph's services.
    fn of_our_own(&self) -> impl Iterator<Item = &'static str> + use<> {
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

/// What is wanted of the server.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) server: String,
    pub(super) session: String,
    /// `None` where the answer is to come in one piece.
    pub(super) wire: Option<WireName>,
    pub(super) mode: Option<Mode>,
    pub(super) effort: Option<String>,
    pub(super) review: bool,
    /// `None` where the question is one of our own routes'.
    pub(super) service: Option<Service>,
}

/// A question to one of TrustGraph's services.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: ServiceName,
    /// Over the socket, as it comes; else over HTTP, in one piece.
    pub(super) streaming: bool,
    pub(super) limits: Vec<Limit>,
}

/// One of TrustGraph's services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceName {
    GraphRag,
    DocumentRag,
}

impl ServiceName {
    /// As the route and the messages spell it.
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

/// A limit of a request, by TrustGraph's name. Whether there is one, and how far it goes, the server says.
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
        limit.ok_or_else(|| BadValue::new(format!("`{text}` is no limit; write entity-limit=10")))
    }
}

/// A wire of our own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WireName {
    /// What the server answers to who accepts anything.
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

    /// The media type without its parameters, for `Accept` and for comparing: that text is UTF-8 goes without saying.
    pub(super) fn media_type(self) -> &'static str {
        essence(self.wire().content_type())
    }

    /// Whether a failure adds its sentence to the text (F-08), or stands in the end alone (N-05).
    pub(super) fn tells_failures_in_text(self) -> bool {
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
            "`{text}` is no {kind}; write one of {}",
            words.join(", ")
        ))
    })
}

/// A media type without its parameters.
pub(super) fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}
