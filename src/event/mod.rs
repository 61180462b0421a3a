//! The vocabulary: every event that a turn can report, under the field's own names.
//!
//! The names and fields are those of the systems that this crate speaks for (ADR 0007, Forge, session chat, Eve, TrustGraph).
//! An event of the application's own is a [`Custom`]. This module knows no wire, no clock and no queue.
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

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use custom::{Custom, EventError, MAX_NAME_BYTES};
pub use parts::{
    AuthorizationOutcome, ClaimCheck, ClaimVerdict, Complexity, CragAction, CragClass, CragDetail, Levels,
    Mode, Source, Triple, Verdict,
};
#[cfg(feature = "turn")]
pub(crate) use step::Step;

use crate::event::item::Item;
use crate::record::record;

/// One row per event: `"name" Type { required: T; optional: T }`. The enum, the names and the conversions follow from it.
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
            /// An event of the application's own.
            #[serde(untagged)]
            Custom(Custom),
        }

        impl Event {
            /// The names of the typed events; a [`Custom`] event cannot take one of them.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The event's name, as every wire without names of its own spells it.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$Name(_) => $name,)*
                    Self::Custom(custom) => &custom.name,
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
        /// What is searched for.
        query: String,
        /// Page of the result list, or of the document that is read.
        page: u32,
    }

    /// A step of reasoning, said in words (ADR 0007 `reasoning`).
    "reasoning" Reasoning {
        /// The step.
        content: String,
    }

    /// A judge looked at the evidence or at a draft (ADR 0007 `review`).
    "review" Review {
        /// Which review of this turn, counted from 1.
        iteration: u32,
        /// What the judge decided.
        verdict: Verdict;
        /// Why, or what to do better.
        feedback: String,
    }

    /// What the question is taken for (Forge `query_analysis`).
    "query_analysis" QueryAnalysis {
        /// The question.
        query: String,
        /// How hard it looks.
        complexity: Complexity,
        /// Whether it is answered through sub-questions.
        decomposed: bool,
        /// How it is going to be answered.
        estimated_mode: Mode;
        /// Who judged: `lexical`, or the model's name.
        judge: String,
    }

    /// A stored answer fits (Forge `cache_hit`).
    "cache_hit" CacheHit {
        /// The question that the stored answer was given to.
        original_query: String,
        /// When it was stored, RFC 3339.
        cached_at: String;
        /// Cosine similarity of the two questions.
        similarity: f64,
    }

    /// No stored answer fits (Forge `cache_miss`).
    "cache_miss" CacheMiss {}

    /// A retrieval tool begins (Forge `retrieval_start`).
    "retrieval_start" RetrievalStart {
        /// Name of the tool.
        tool: String,
        /// What is searched for; may differ from the question.
        query: String,
        /// Iteration of the agent, counted from 1.
        iteration: u32,
    }

    /// A retrieval tool is done (Forge `retrieval_result`).
    "retrieval_result" RetrievalResult {
        /// Name of the tool.
        tool: String,
        /// How many chunks it found.
        chunks_found: u32,
        /// How long it took, in milliseconds.
        duration_ms: u64;
        /// Best score among them, on the tool's own scale.
        top_score: f64,
        /// How many chunks of each level.
        levels: Levels,
    }

    /// A tool is called (Forge `tool_call`, session chat `tool_start`, Eve `agent.tool_call`).
    "tool_call" ToolCall {
        /// Name of the tool.
        tool: String,
        /// Its arguments.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        input: Value;
        /// Ties the call to its result, where calls overlap.
        call_id: String,
        /// Iteration of the agent, counted from 1.
        iteration: u32,
        /// What the tool is for.
        description: String,
        /// JSON schema of the arguments.
        parameters: Value,
        /// Round of the turn, counted from 1.
        round: u32,
        /// Most rounds that the turn may take.
        max_rounds: u32,
    }

    /// A tool answered (Forge `tool_result`, session chat `tool_end`, Eve `agent.tool_result`).
    "tool_result" ToolResult {
        /// Name of the tool.
        tool: String,
        /// What it returned, or what went wrong.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value;
        /// The call that this answers.
        call_id: String,
        /// Whether `result` is an error.
        is_error: bool,
        /// How long it took, in milliseconds.
        duration_ms: u64,
        /// Round of the turn, counted from 1.
        round: u32,
        /// Most rounds that the turn may take.
        max_rounds: u32,
    }

    /// The quality gate judged the retrieved chunks (Forge `crag_evaluation`).
    "crag_evaluation" CragEvaluation {
        /// Chunks that answer.
        correct: u32,
        /// Chunks that may answer.
        ambiguous: u32,
        /// Chunks that do not answer.
        incorrect: u32,
        /// What follows from it.
        action: CragAction,
        /// How many ambiguous chunks were widened to their parent.
        expanded: u32,
        /// The verdict on each chunk.
        details: [CragDetail];
        /// Who judged: `lexical`, or the model's name.
        judge: String,
    }

    /// The chunks were put into a better order (Forge `rerank_result`).
    "rerank_result" RerankResult {
        /// How it was done.
        method: String,
        /// Chunks before.
        input_count: u32,
        /// Chunks after.
        output_count: u32,
        /// How long it took, in milliseconds.
        duration_ms: u64;
        /// Best score after, on the method's own scale.
        top_score: f64,
    }

    /// The answer is about to be generated (Forge `generation_start`).
    "generation_start" GenerationStart {
        /// Chunks in the context.
        context_chunks: u32,
        /// Tokens in the context.
        total_context_tokens: u32,
        /// Which model.
        model: String,
    }

    /// A round of inference begins (session chat `round_start`).
    "round_start" RoundStart {
        /// Which round, counted from 1.
        round: u32,
        /// Most rounds that the turn may take.
        max_rounds: u32,
    }

    /// The model generates in this round (session chat `generating`).
    "generating" Generating {
        /// Which round, counted from 1.
        round: u32,
        /// Most rounds that the turn may take.
        max_rounds: u32,
    }

    /// What the model thought, whole (session chat `thinking`).
    "thinking" Thinking {
        /// The thought, never shortened.
        content: String;
        /// Which round, counted from 1.
        round: u32,
        /// Most rounds that the turn may take.
        max_rounds: u32,
    }

    /// The answer was checked claim by claim (Forge `verification`).
    "verification" Verification {
        /// Claims looked at.
        claims_checked: u32,
        /// Claims that the sources support.
        claims_supported: u32,
        /// Claims that the sources support in part.
        claims_partially_supported: u32,
        /// Claims that the sources do not support.
        claims_unsupported: u32,
        /// The verdict on each claim.
        details: [ClaimCheck];
        /// Share of support, 0 to 1.
        confidence: f64,
        /// Who judged: `lexical`, or the model's name.
        judge: String,
    }

    /// The passages that the answer draws on (Forge `sources`).
    "sources" Sources {
        /// The passages, best first.
        sources: [Source],
    }

    /// The turn waits for its slot (session chat's queue).
    "queued" Queued {
        /// Place in the queue; 1 is next.
        position: u32,
        /// Turns before this one, waiting or running.
        ahead: u32,
        /// Time waited so far, in milliseconds.
        waited_ms: u64,
    }

    /// The turn needs a human's answer (Eve `input.requested`).
    "input_requested" InputRequested {
        /// Names the request in the answer.
        request_id: String,
        /// What kind of answer: `approval`, `choice`, `text`, …
        kind: String,
        /// What the human is asked.
        prompt: String;
        /// The answers to choose from.
        options: [String],
    }

    /// The human answered (Eve `input.resolved`).
    "input_resolved" InputResolved {
        /// The request that was answered.
        request_id: String;
        /// The answer; none where time was up or the request was withdrawn.
        response: Value,
    }

    /// A connection needs the user's consent (Eve `authorization.required`).
    "authorization_required" AuthorizationRequired {
        /// Name of the connection.
        connection: String,
        /// Where the user consents.
        auth_url: String;
        /// What the consent is for.
        description: String,
        /// Names the request, where the turn waits for it.
        request_id: String,
    }

    /// The consent was given or not (Eve `authorization.granted`, `authorization.completed`).
    "authorization_completed" AuthorizationCompleted {
        /// Name of the connection.
        connection: String,
        /// How it ended.
        outcome: AuthorizationOutcome;
        /// Why, where it was not given.
        reason: String,
        /// The request that this ends.
        request_id: String,
    }

    /// The answer in the structure that the request asked for (Eve `result.completed`).
    "structured_result" StructuredResult {
        /// The result.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        result: Value,
    }

    /// Why a graph search went where it went (TrustGraph `explain`).
    "graph_explanation" GraphExplanation {
        /// Names the explanation.
        explain_id: String,
        /// The graph that holds its triples.
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
    fn strangers_become_custom_events() {
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
}
