//! Which decoder reads a response: by the name of its wire, or by its headers.

use std::fmt;
use std::str::FromStr;

use super::plain::PlainDecoder;
use super::{
    Decode, ag_ui, ai_sdk, eve, forge, framed, langgraph, ndjson, ollama, openai, responses, session_chat,
    sse, trustgraph,
};

/// Defines [`WireKind`] from one row per wire: its variant, its name and its decoder.
macro_rules! wire_kinds {
    ($($(#[$meta:meta])* $Kind:ident = $name:literal, $decoder:expr;)*) => {
        /// The wires that this crate decodes.
        ///
        /// A name converts into its kind:
        ///
        /// ```
        /// use ragwire::wire::WireKind;
        ///
        /// assert_eq!("ndjson".parse(), Ok(WireKind::Ndjson));
        /// assert_eq!(WireKind::Ndjson.to_string(), "ndjson");
        /// let decoder = WireKind::Ndjson.decoder();
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum WireKind {
            $($(#[$meta])* $Kind,)*
        }

        impl WireKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$Kind),*];

            /// Returns the name, which is [`Wire::name`](super::Wire::name) if there is an encoder.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$Kind => $name,)*
                }
            }

            /// Creates a decoder for one stream, with the default limits.
            pub fn decoder(self) -> Box<dyn Decode> {
                match self {
                    $(Self::$Kind => Box::new($decoder),)*
                }
            }
        }
    };
}

wire_kinds! {
    /// The framed wire of ADR 0007.
    Framed = "framed", framed::Framed::default().decoder();
    /// Our server-sent events.
    Sse = "sse", sse::Sse::default().decoder();
    /// Our JSON lines.
    Ndjson = "ndjson", ndjson::Ndjson::default().decoder();
    /// The UI message stream of npm `ai`.
    AiSdk = "ai_sdk", ai_sdk::AiSdkDecoder::default();
    /// AG-UI.
    AgUi = "ag_ui", ag_ui::AgUiDecoder::default();
    /// Chat completions of OpenAI and compatible servers.
    OpenAi = "openai", openai::Decoder::default();
    /// OpenAI's Responses API.
    Responses = "responses", responses::Decoder::default();
    /// Ollama's chat.
    Ollama = "ollama", ollama::Decoder::default();
    /// The run stream of LangGraph Server.
    LangGraph = "langgraph", langgraph::LangGraph::new("").decoder();
    /// Forge's server-sent events.
    Forge = "forge", forge::Forge::default().decoder();
    /// The session chat.
    SessionChat = "session_chat", session_chat::SessionChat::default().decoder();
    /// One turn of Eve, in either vocabulary.
    Eve = "eve", eve::Eve::new("").decoder();
    /// TrustGraph's messages, one on each line.
    TrustGraph = "trustgraph", trustgraph::TrustGraphDecoder::default();
    /// Plain text.
    Plain = "plain", PlainDecoder::default();
}

impl WireKind {
    /// Returns the wire of a response with this content type, or `None` if no wire has it.
    ///
    /// `has_header` reports whether the response has a header, whose name is in lower case. Several
    /// protocols share a media type. Where no header distinguishes them, the result is the wire of
    /// this crate, and any other is chosen by its name:
    ///
    /// | media type | wire |
    /// |---|---|
    /// | `text/event-stream` with `x-vercel-ai-ui-message-stream` | `ai_sdk` |
    /// | `text/event-stream` | `sse` |
    /// | `application/x-ndjson` with `x-eve-stream-format` | `eve` |
    /// | `application/x-ndjson`, `application/ndjson`, `application/jsonl` | `ndjson` |
    /// | `text/plain` with `x-ragwire-turn` | `framed` |
    /// | `text/plain` | `plain` |
    ///
    /// ```
    /// use ragwire::wire::WireKind;
    ///
    /// let headers = ["content-type", "x-ragwire-turn"];
    /// let of = |content_type| WireKind::of_response(content_type, |name| headers.contains(&name));
    /// assert_eq!(of("text/plain; charset=utf-8"), Some(WireKind::Framed));
    /// assert_eq!(of("text/event-stream"), Some(WireKind::Sse));
    /// assert_eq!(of("text/html"), None);
    /// ```
    pub fn of_response(content_type: &str, has_header: impl Fn(&str) -> bool) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match &*essence.to_ascii_lowercase() {
            "text/event-stream" if has_header("x-vercel-ai-ui-message-stream") => Some(Self::AiSdk),
            "text/event-stream" => Some(Self::Sse),
            "application/x-ndjson" if has_header("x-eve-stream-format") => Some(Self::Eve),
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Some(Self::Ndjson),
            "text/plain" if has_header("x-ragwire-turn") => Some(Self::Framed),
            "text/plain" => Some(Self::Plain),
            _ => None,
        }
    }
}

impl fmt::Display for WireKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WireKind {
    type Err = UnknownWire;

    fn from_str(name: &str) -> Result<Self, UnknownWire> {
        let kind = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        kind.ok_or(UnknownWire)
    }
}

/// The error for a name that no decoder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownWire;

impl std::error::Error for UnknownWire {}

impl fmt::Display for UnknownWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown wire: use one of")?;
        let mut names = WireKind::ALL.iter().map(|kind| kind.name());
        names.try_for_each(|name| write!(f, " {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_convert_in_both_directions() {
        for kind in WireKind::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
        }
        let error = "odt".parse::<WireKind>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown wire: use one of framed sse "),
            "{error}"
        );
    }

    #[test]
    fn media_types_choose_a_wire() {
        for (content_type, header, kind) in [
            ("Text/Event-Stream ; charset=utf-8", "", Some(WireKind::Sse)),
            (
                "text/event-stream",
                "x-vercel-ai-ui-message-stream",
                Some(WireKind::AiSdk),
            ),
            ("application/x-ndjson", "", Some(WireKind::Ndjson)),
            ("application/jsonl", "", Some(WireKind::Ndjson)),
            (
                "application/x-ndjson; charset=utf-8",
                "x-eve-stream-format",
                Some(WireKind::Eve),
            ),
            ("text/plain", "x-ragwire-turn", Some(WireKind::Framed)),
            ("text/plain;charset=utf-8", "", Some(WireKind::Plain)),
            ("application/json", "", None),
            ("", "x-ragwire-turn", None),
        ] {
            let found = WireKind::of_response(content_type, |name| name == header);
            assert_eq!(found, kind, "{content_type}");
        }
    }
}
