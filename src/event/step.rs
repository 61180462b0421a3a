//! The steps of a turn: which event replaces which older one in a snapshot.

use std::borrow::Cow;

use super::{Custom, Event};

/// A step whose state an event reports. Of two events of one step only the newer one is needed.
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

    /// Returns the length of its strings in bytes.
    pub(crate) fn len(&self) -> usize {
        self.kind.len() + self.id.len()
    }
}

impl Event {
    /// Returns the step whose state this event reports, or `None` if the event adds to earlier ones
    /// and therefore replaces none.
    pub(crate) fn step(&self) -> Option<Step> {
        Some(match self {
            // A turn has one of each, or only the last one counts.
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
            // Each round and each review is a step, and so are the thoughts of each round.
            Self::Review(review) => Step::new("review", review.iteration.to_string()),
            Self::RoundStart(round) => Step::new("round_start", round.round.to_string()),
            Self::Generating(round) => Step::new("generating", round.round.to_string()),
            // A piece adds to the thought's earlier pieces. The journal's fold joins them.
            Self::Thinking(thought) if thought.id.is_some() => return None,
            Self::Thinking(thought) => {
                let round = thought.round.map(|round| round.to_string());
                Step::new("thinking", round.unwrap_or_default())
            }
            // A result does not contain its call, so it does not replace it. Without an ID only the
            // order connects results with calls, so all of them are needed.
            Self::RetrievalStart(start) => {
                Step::new("retrieval_start", format!("{} {}", start.iteration, start.tool))
            }
            Self::RetrievalResult(result) => Step::new("retrieval_result", &result.tool),
            Self::ToolCall(call) => Step::new("tool_call", call.call_id.as_ref()?),
            Self::ToolResult(result) => Step::new("tool_result", result.call_id.as_ref()?),
            // A resolved request replaces its question.
            Self::InputRequested(question) => Step::new("input", &question.request_id),
            Self::InputResolved(resolved) => Step::new("input", &resolved.request_id),
            Self::AuthorizationRequired(required) => Step::new(
                "authorization",
                required.request_id.as_ref().unwrap_or(&required.connection),
            ),
            Self::AuthorizationCompleted(completed) => Step::new(
                "authorization",
                completed.request_id.as_ref().unwrap_or(&completed.connection),
            ),
            // Applied to the text of the snapshot; nothing of it is left there.
            Self::Retract(_) => return None,
            // Later `sources` events add documents. The journal's fold merges them.
            Self::Sources(_) => return None,
            Self::GraphExplanation(explanation) => Step::new("graph_explanation", &explanation.explain_id),
            Self::Custom(custom) => custom_step(custom),
        })
    }
}

/// Returns the step of a custom event: its name, together with the `id` in its data if there is
/// one.
fn custom_step(custom: &Custom) -> Step {
    Step {
        kind: Cow::Owned(format!("custom {}", custom.name())),
        id: custom
            .data
            .get("id")
            .map_or_else(String::new, ToString::to_string),
    }
}
