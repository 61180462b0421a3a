//! Events as lines for people, for wires whose clients show text and nothing else.

use super::{Event, ToolCall, ToolResult};

impl Event {
    /// Returns one short English line about this event, without a line end, or `None` for an event
    /// that means nothing to a reader by itself.
    ///
    /// For clients that show reasoning or progress as text: OpenAI's `reasoning_content`, Ollama's
    /// `thinking`, MCP's progress messages. The line quotes queries and names of tools, never
    /// passages or results.
    ///
    /// ```
    /// use ragwire::event::{Event, RetrievalStart};
    ///
    /// let event = Event::from(RetrievalStart::new("bm25", "commit rule", 1_u32));
    /// assert_eq!(event.summary().as_deref(), Some("Searching with bm25: commit rule"));
    /// ```
    pub fn summary(&self) -> Option<String> {
        Some(match self {
            Self::Search(search) => match &search.query {
                Some(query) => format!("Searching with {}: {query}", search.tool),
                None => format!("Searching with {}", search.tool),
            },
            Self::Reasoning(step) => step.content.clone(),
            Self::Thinking(thought) => thought.content.clone(),
            Self::Review(review) => match &review.feedback {
                Some(feedback) => format!("Review: {} ({feedback})", review.verdict.as_str()),
                None => format!("Review: {}", review.verdict.as_str()),
            },
            Self::CacheHit(hit) => format!("Found a stored answer to: {}", hit.original_query),
            Self::RetrievalStart(start) => format!("Searching with {}: {}", start.tool, start.query),
            Self::RetrievalResult(result) => {
                format!(
                    "{} found {}",
                    result.tool,
                    counted(result.chunks_found, "passage")
                )
            }
            Self::ToolCall(ToolCall { tool, .. }) => format!("Calling {tool}"),
            Self::ToolResult(ToolResult { tool, is_error, .. }) if *is_error == Some(true) => {
                format!("{tool} failed")
            }
            Self::ToolResult(ToolResult { tool, .. }) => format!("{tool} returned"),
            Self::CragEvaluation(graded) => format!(
                "Graded {}: {} relevant",
                counted(
                    graded
                        .correct
                        .saturating_add(graded.ambiguous)
                        .saturating_add(graded.incorrect),
                    "passage"
                ),
                graded.correct
            ),
            Self::RerankResult(ranked) => format!(
                "Kept {} of {} after reranking",
                ranked.output_count,
                counted(ranked.input_count, "passage")
            ),
            Self::GenerationStart(start) => {
                format!("Answering from {}", counted(start.context_chunks, "passage"))
            }
            Self::Verification(checked) => format!(
                "Verified {}: {} supported",
                counted(checked.claims_checked, "claim"),
                checked.claims_supported
            ),
            Self::Queued(queued) => format!("Waiting, position {}", queued.position),
            Self::InputRequested(question) => question.prompt.clone(),
            Self::AuthorizationRequired(required) => {
                format!(
                    "{} needs your consent: {}",
                    required.connection, required.auth_url
                )
            }
            Self::QueryAnalysis(_)
            | Self::CacheMiss(_)
            | Self::RoundStart(_)
            | Self::Generating(_)
            | Self::Retract(_)
            | Self::Sources(_)
            | Self::InputResolved(_)
            | Self::AuthorizationCompleted(_)
            | Self::StructuredResult(_)
            | Self::GraphExplanation(_)
            | Self::Custom(_) => return None,
        })
    }
}

fn counted(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
