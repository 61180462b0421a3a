//! The vocabulary: every event that a turn can report.
//!
//! Names and fields are those of the systems whose wires this crate speaks (ADR 0007, Forge,
//! session chat, Eve, TrustGraph; `docs/protocols.md` introduces them). An application adds its own
//! events with [`Custom`]. This module knows no wire, no clock and no queue.
//!
//! ```
//! use ragwire::event::{Event, Search};
//!
//! let event = Event::from(Search::new("bm25").query("commit rule").page(2));
//! assert_eq!(event.name(), "search");
//! assert_eq!(
//!     serde_json::to_string(&event).unwrap(),
//!     r#"{"event":"search","tool":"bm25","query":"commit rule","page":2}"#
//! );
//! ```

mod custom;
pub(crate) mod item;
mod parts;
#[cfg(feature = "turn")]
mod step;
mod summary;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use custom::{Custom, EventError, MAX_NAME_BYTES};
pub use parts::{
    AuthorizationOutcome, ClaimCheck, ClaimVerdict, Complexity, CragAction, CragClass, CragDetail, Levels,
    Mode, Source, Triple, Verdict,
};
#[cfg(feature = "turn")]
pub(crate) use step::Step;

use self::item::Item;
use crate::record::record;

/// Defines [`Event`], its names and conversions from one row per event:
/// `"name" Type { required: T; optional: T }`.
macro_rules! vocabulary {
    ($(
        $(#[$meta:meta])*
        $name:literal $Name:ident { $($fields:tt)* }
    )*) => {
        record! { $( $(#[$meta])* $Name { $($fields)* } )* }

        /// One progress record of a turn.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "event")]
        #[non_exhaustive]
        pub enum Event {
            $( $(#[$meta])* #[serde(rename = $name)] $Name($Name), )*
            /// An event that the application defines.
            #[serde(untagged)]
            Custom(Custom),
        }

        impl Event {
            /// The names of the typed events. A [`Custom`] event cannot use one of them.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns the event's name, as every wire without its own names writes it.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$Name(_) => $name,)*
                    Self::Custom(custom) => &custom.name,
                }
            }
        }

        impl Event {
            /// Creates an event from its name and the members of its JSON, strictly: unlike
            /// deserializing, a mistake in a typed event is an error, not a [`Custom`] event. A
            /// custom event has the members as its data.
            ///
            /// ```
            /// use ragwire::Event;
            /// use serde_json::json;
            ///
            /// let members = json!({"tool": "bm25"}).as_object().cloned().unwrap_or_default();
            /// assert_eq!(Event::from_members("search", members)?.name(), "search");
            /// let misspelled = json!({"tol": "bm25"}).as_object().cloned().unwrap_or_default();
            /// let error = Event::from_members("search", misspelled).unwrap_err();
            /// assert_eq!(error.to_string(), "event `search`: missing field `tool`");
            /// # Ok::<_, ragwire::event::EventError>(())
            /// ```
            ///
            /// # Errors
            ///
            /// Returns [`EventError::Members`] if a member is missing, unknown or has the wrong
            /// type, and the errors of [`Custom::new`].
            pub fn from_members(name: &str, members: Map<String, Value>) -> Result<Self, EventError> {
                match name {
                    $($name => custom::strict::<$Name>(name, members).map(Self::$Name),)*
                    _ => Ok(Self::Custom(Custom::new(name, &members)?)),
                }
            }
        }

        impl Event {
            /// Serializes the event without its name.
            pub(crate) fn serialize_members<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$Name(event) => event.serialize(serializer),)*
                    Self::Custom(custom) => custom.data.serialize(serializer),
                }
            }

            /// Reads the members of the typed event `name`, without the buffer that a derived
            /// implementation needs to find the name. `None` if no event has the name, or if the
            /// members do not fit it.
            pub(crate) fn typed<'de, D: serde::Deserializer<'de>>(name: &str, object: D) -> Option<Self> {
                match name {
                    $($name => $Name::deserialize(object).ok().map(Self::$Name),)*
                    _ => None,
                }
            }
        }

        $(impl From<$Name> for Event {
            fn from(event: $Name) -> Self {
                Self::$Name(event)
            }
        }

        impl From<$Name> for Item<'_> {
            fn from(event: $Name) -> Self {
                Self::Event(event.into())
            }
        })*
    };
}

vocabulary! {
    /// The agent calls a search tool (ADR 0007 `search`).
    "search" Search {
        /// Name of the tool.
        tool: String;
        /// The search query.
        query: String,
        /// Page of the result list, or of the document that the tool reads.
        page: u32,
    }

    /// A step of reasoning as text (ADR 0007 `reasoning`).
    "reasoning" Reasoning {
        /// The step.
        content: String,
    }

    /// A judge reviewed the evidence or a draft (ADR 0007 `review`).
    "review" Review {
        /// Number of the review within the turn, counted from 1.
        iteration: u32,
        /// The judge's decision.
        verdict: Verdict;
        /// The reason, or what to improve.
        feedback: String,
    }

    /// The classification of the question (Forge `query_analysis`).
    "query_analysis" QueryAnalysis {
        /// The question.
        query: String,
        /// How difficult the question looks.
        complexity: Complexity,
        /// Whether it is split into sub-questions.
        decomposed: bool,
        /// How it will probably be answered.
        estimated_mode: Mode;
        /// The judge: `lexical` or the name of a model.
        judge: String,
    }

    /// The cache has an answer (Forge `cache_hit`).
    "cache_hit" CacheHit {
        /// The question of the cached answer.
        original_query: String,
        /// When the answer was cached, in RFC 3339.
        cached_at: String;
        /// Cosine similarity of the two questions.
        similarity: f64,
    }

    /// The cache has no answer (Forge `cache_miss`).
    "cache_miss" CacheMiss {}

    /// A retrieval tool begins (Forge `retrieval_start`).
    "retrieval_start" RetrievalStart {
        /// Name of the tool.
        tool: String,
        /// The search query, which may differ from the question.
        query: String,
        /// Iteration of the agent, counted from 1.
        iteration: u32,
    }

    /// A retrieval tool has finished (Forge `retrieval_result`).
    "retrieval_result" RetrievalResult {
        /// Name of the tool.
        tool: String,
        /// Number of chunks in the result.
        chunks_found: u32,
        /// Duration in milliseconds.
        duration_ms: u64;
        /// Best score in the result, on the tool's scale.
        top_score: f64,
        /// Number of chunks per level.
        levels: Levels,
    }

    /// A tool is called (Forge `tool_call`, session chat `tool_start`, Eve `agent.tool_call`).
    "tool_call" ToolCall {
        /// Name of the tool.
        tool: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        input: Value;
        /// Connects the call with its result when calls overlap.
        call_id: String,
        /// Iteration of the agent, counted from 1.
        iteration: u32,
        /// The purpose of the tool.
        description: String,
        /// JSON schema of the arguments.
        parameters: Value,
        /// Round of the turn, counted from 1.
        round: u32,
        /// The maximum number of rounds of the turn.
        max_rounds: u32,
    }

    /// A tool returned (Forge `tool_result`, session chat `tool_end`, Eve `agent.tool_result`).
    "tool_result" ToolResult {
        /// Name of the tool.
        tool: String,
        /// The returned value or the error.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value;
        /// The call that returned.
        call_id: String,
        /// Whether `result` is an error.
        is_error: bool,
        /// Duration in milliseconds.
        duration_ms: u64,
        /// Round of the turn, counted from 1.
        round: u32,
        /// The maximum number of rounds of the turn.
        max_rounds: u32,
    }

    /// The quality gate judged the retrieved chunks (Forge `crag_evaluation`).
    "crag_evaluation" CragEvaluation {
        /// Number of chunks that answer the question.
        correct: u32,
        /// Number of chunks that may answer it.
        ambiguous: u32,
        /// Number of chunks that do not answer it.
        incorrect: u32,
        /// What the pipeline does next.
        action: CragAction,
        /// Number of ambiguous chunks that were replaced by their parent.
        expanded: u32,
        /// The verdict on each chunk.
        details: [CragDetail];
        /// The judge: `lexical` or the name of a model.
        judge: String,
    }

    /// The chunks were reranked (Forge `rerank_result`).
    "rerank_result" RerankResult {
        /// The method.
        method: String,
        /// Number of chunks before reranking.
        input_count: u32,
        /// Number of chunks after reranking.
        output_count: u32,
        /// Duration in milliseconds.
        duration_ms: u64;
        /// Best score after reranking, on the method's scale.
        top_score: f64,
    }

    /// The answer is about to be generated (Forge `generation_start`).
    "generation_start" GenerationStart {
        /// Number of chunks in the context.
        context_chunks: u32,
        /// Number of tokens in the context.
        total_context_tokens: u32,
        /// Name of the model.
        model: String,
    }

    /// A round of inference begins (session chat `round_start`).
    "round_start" RoundStart {
        /// Round of the turn, counted from 1.
        round: u32,
        /// The maximum number of rounds of the turn.
        max_rounds: u32,
    }

    /// The model generates in this round (session chat `generating`).
    "generating" Generating {
        /// Round of the turn, counted from 1.
        round: u32,
        /// The maximum number of rounds of the turn.
        max_rounds: u32,
    }

    /// A thought of the model, whole or one piece of it (session chat `thinking`).
    "thinking" Thinking {
        /// The thought, or the next piece of the thought with this `id`. Never shortened.
        content: String;
        /// Names the thought that this is a piece of. Consecutive events with the same ID are one
        /// thought; without an ID each event is a thought of its own.
        id: String,
        /// Round of the turn, counted from 1.
        round: u32,
        /// The maximum number of rounds of the turn.
        max_rounds: u32,
    }

    /// The model takes back text that was already sent, for example because a round is generated
    /// again.
    "retract" Retract {
        /// Number of characters (Unicode scalar values) of the answer that stay, counted from its
        /// beginning. The rest is withdrawn, and later text follows the part that stays.
        kept: u64,
    }

    /// The answer was checked claim by claim (Forge `verification`).
    "verification" Verification {
        /// Number of claims checked.
        claims_checked: u32,
        /// Number of claims that the sources support.
        claims_supported: u32,
        /// Number of claims that the sources support partially.
        claims_partially_supported: u32,
        /// Number of claims that the sources do not support.
        claims_unsupported: u32,
        /// The verdict on each claim.
        details: [ClaimCheck];
        /// Share of supported claims, 0 to 1. If the answer only quotes: how likely the quotes answer
        /// the question.
        confidence: f64,
        /// The judge: `lexical` or the name of a model.
        judge: String,
    }

    /// The passages behind the answer (Forge `sources`).
    "sources" Sources {
        /// The passages, best first.
        sources: [Source],
    }

    /// The turn is on the waiting list of its group (session chat's queue).
    "queued" Queued {
        /// Position on the waiting list; 1 is next.
        position: u32,
        /// Number of turns before this one, waiting or running.
        ahead: u32,
        /// Time waited so far, in milliseconds.
        waited_ms: u64,
    }

    /// The turn needs a human's answer (Eve `input.requested`).
    "input_requested" InputRequested {
        /// Names the request in the answer.
        request_id: String,
        /// The kind of answer: `approval`, `choice`, `text` or one that the application defines.
        kind: String,
        /// The text of the question.
        prompt: String;
        /// The answers to choose from.
        options: [String],
    }

    /// A request to a human was resolved (Eve `input.resolved`).
    "input_resolved" InputResolved {
        /// The request.
        request_id: String;
        /// The answer. Absent if the request timed out or was withdrawn.
        response: Value,
    }

    /// A connection needs the user's consent (Eve `authorization.required`).
    "authorization_required" AuthorizationRequired {
        /// Name of the connection.
        connection: String,
        /// The page where the user consents.
        auth_url: String;
        /// The purpose of the consent.
        description: String,
        /// Names the request if the turn waits for its outcome.
        request_id: String,
    }

    /// The outcome of a request for consent (Eve `authorization.granted`,
    /// `authorization.completed`).
    "authorization_completed" AuthorizationCompleted {
        /// Name of the connection.
        connection: String,
        /// The outcome.
        outcome: AuthorizationOutcome;
        /// Why consent was not given.
        reason: String,
        /// The request that this resolves.
        request_id: String,
    }

    /// The answer in the structure that the client requested (Eve `result.completed`).
    "structured_result" StructuredResult {
        /// The result.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    }

    /// How a graph search reached its result (TrustGraph `explain`).
    "graph_explanation" GraphExplanation {
        /// Names the explanation.
        explain_id: String,
        /// The graph that contains its triples.
        graph: String,
        /// The triples that were followed.
        triples: [Triple],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn typed_events_keep_their_shape() {
        for (event, bytes) in [
            (
                Event::from(Review::new(1, Verdict::Rejected).feedback("thin")),
                r#"{"event":"review","iteration":1,"verdict":"rejected","feedback":"thin"}"#,
            ),
            (CacheMiss::new().into(), r#"{"event":"cache_miss"}"#),
            (
                QueryAnalysis::new("q", Complexity::Simple, false, Mode::Direct)
                    .judge("lexical")
                    .into(),
                r#"{"event":"query_analysis","query":"q","complexity":"simple","decomposed":false,"estimated_mode":"direct","judge":"lexical"}"#,
            ),
            (
                RetrievalResult::new("bm25", 3, 12)
                    .top_score(f64::NAN)
                    .levels(Levels::new(1, 2, 0))
                    .into(),
                r#"{"event":"retrieval_result","tool":"bm25","chunks_found":3,"duration_ms":12,"levels":{"L1":1,"L2":2,"L3":0}}"#,
            ),
            (
                Custom::new("my_step", &json!({"n": 1})).unwrap().into(),
                r#"{"event":"my_step","data":{"n":1}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&event).unwrap(), bytes);
        }
    }

    #[test]
    fn unknown_events_become_custom_events() {
        for (text, name, data) in [
            (r#"{"event":"x"}"#, "x", json!({})),
            (r#"{"event":"x","data":[1]}"#, "x", json!([1])),
            (
                r#"{"event":"x","data":1,"more":2}"#,
                "x",
                json!({"more": 2, "data": 1}),
            ),
            (
                r#"{"event":"review","verdict":"maybe"}"#,
                "review",
                json!({"verdict": "maybe"}),
            ),
        ] {
            let event: Event = serde_json::from_str(text).unwrap();
            assert_eq!(
                event,
                Event::Custom(Custom {
                    name: name.into(),
                    data
                }),
                "{text}"
            );
        }
    }

    #[test]
    fn hostile_names_are_refused() {
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        for name in ["", "a\nb", "a\rb", "nul\0", "search", "next\u{85}line", &long] {
            assert_eq!(
                Custom::new(name, &()).unwrap_err().code(),
                "event_name",
                "{name:?}"
            );
        }
    }

    #[test]
    fn the_members_of_a_typed_event_are_checked() {
        let of = |name: &str, members: Value| {
            let Value::Object(members) = members else {
                panic!("{members}")
            };
            Event::from_members(name, members).map_err(|error| error.to_string())
        };
        let search = || Event::from(Search::new("bm25"));
        assert_eq!(of("search", json!({"tool": "bm25"})), Ok(search()));
        // `null` is an absent member, whether the event has it or not.
        let nulls = json!({"tool": "bm25", "query": null, "qurey": null});
        assert_eq!(of("search", nulls), Ok(search()));
        assert_eq!(
            of("search", json!({"tool": "bm25", "qurey": "why"})),
            Err("event `search`: unknown member `qurey`".to_owned())
        );
        assert!(
            of("search", json!({"tool": 1}))
                .unwrap_err()
                .starts_with("event `search`: ")
        );
        assert!(of("search", json!({"tool": null})).is_err());
    }

    #[cfg(feature = "turn")]
    #[test]
    fn the_length_of_a_step_is_that_of_its_strings() {
        for (event, bytes) in [
            (Event::from(CacheMiss::new()), "cache".len()),
            (RoundStart::new(12, 20).into(), "round_start".len() + "12".len()),
        ] {
            assert_eq!(event.step().map(|step| step.len()), Some(bytes));
        }
    }

    #[test]
    fn a_result_of_a_tool_is_summed_up_by_whether_it_failed() {
        for (result, line) in [
            (ToolResult::new("pay", 1), "pay returned"),
            (ToolResult::new("pay", 1).is_error(false), "pay returned"),
            (ToolResult::new("pay", 1).is_error(true), "pay failed"),
        ] {
            assert_eq!(Event::from(result).summary().as_deref(), Some(line));
        }
    }
}
