//! Which event says the newer state of which: the steps of a turn. It knows no journal and drops nothing itself.

use std::borrow::Cow;

use super::{Custom, Event};

/// What an event tells the state of. Of two events of one step the newer one is enough.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Step {
    kind: Cow<'static, str>,
    id: String,
}

impl Step {
    fn new(kind: &'static str, id: impl Into<String>) -> Self {
        Self {
            kind: Cow::Borrowed(kind),
            id: id.into(),
        }
    }

    /// Bytes of its words.
    pub(crate) fn len(&self) -> usize {
        self.kind.len() + self.id.len()
    }
}

impl Event {
    /// The step whose state this event tells; `None` where it adds to what others told and so is replaced by none.
    pub(crate) fn step(&self) -> Option<Step> {
        Some(match self {
            // There is one of each in a turn, or only the last one counts.
            Self::Search(_) => Step::new("search", ""),
            Self::Reasoning(_) => Step::new("reasoning", ""),
            Self::QueryAnalysis(_) => Step::new("query_analysis", ""),
            Self::CacheHit(_) | Self::CacheMiss(_) => Step::new("cache", ""),
            Self::CragEvaluation(_) => Step::new("crag_evaluation", ""),
            Self::RerankResult(_) => Step::new("rerank_result", ""),
            Self::GenerationStart(_) => Step::new("generation_start", ""),
            Self::Verification(_) => Step::new("verification", ""),
            Self::Queued(_) => Step::new("queued", ""),
            Self::StructuredResult(_) => Step::new("structured_result", ""),
            // Each round and each review is a step; so are the thoughts of each round.
            Self::Review(review) => Step::new("review", review.iteration.to_string()),
            Self::RoundStart(round) => Step::new("round_start", round.round.to_string()),
            Self::Generating(round) => Step::new("generating", round.round.to_string()),
            Self::Thinking(thought) => {
                let round = thought.round.map(|round| round.to_string());
                Step::new("thinking", round.unwrap_or_default())
            }
            // A result does not repeat what was asked, so it does not replace the call. Without an id only the order ties results to
            // calls, and none of them can be spared.
            Self::RetrievalStart(start) => {
                Step::new("retrieval_start", format!("{} {}", start.iteration, start.tool))
            }
            Self::RetrievalResult(result) => Step::new("retrieval_result", &result.tool),
            Self::ToolCall(call) => Step::new("tool_call", call.call_id.as_ref()?),
            Self::ToolResult(result) => Step::new("tool_result", result.call_id.as_ref()?),
            // What is answered is open no longer.
            Self::InputRequested(asked) => Step::new("input", &asked.request_id),
            Self::InputResolved(resolved) => Step::new("input", &resolved.request_id),
            Self::AuthorizationRequired(asked) => Step::new(
                "authorization",
                asked.request_id.as_ref().unwrap_or(&asked.connection),
            ),
            Self::AuthorizationCompleted(done) => Step::new(
                "authorization",
                done.request_id.as_ref().unwrap_or(&done.connection),
            ),
            // Documents are said once; what a later event has of them is looked at by whoever drops.
            Self::Sources(_) => return None,
            Self::GraphExplanation(explanation) => Step::new("graph_explanation", &explanation.explain_id),
            Self::Custom(custom) => own_step(custom),
        })
    }
}

/// An event of the application's own replaces the one before it of its name, or of its name and `id` where its data has one.
fn own_step(custom: &Custom) -> Step {
    Step {
        kind: Cow::Owned(format!("custom {}", custom.name())),
        id: custom
            .data
            .get("id")
            .map_or_else(String::new, ToString::to_string),
    }
}
