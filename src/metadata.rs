//! What closes a turn: citations, tools used, usage, and whatever the application adds.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::record::{Optional, record};

record! {
    /// One piece of evidence for the answer (ADR 0007).
    Citation {
        /// The document.
        document_id: String,
        /// The passage within it.
        chunk_id: String,
        /// The words that support the answer, as they stand in the document.
        supporting_quote: String,
        /// The tool that found them.
        source_tool: String;
        /// The page, counted from 1 (0 where the document counts so).
        page_number: u32,
        /// Score of the search that found it, on the tool's own scale.
        score: f64,
        /// The heading that the passage stands under.
        heading: String,
    }

    /// What the turn consumed. Every number is measured or left out.
    #[derive(Default)]
    Usage {;
        /// Tokens of the prompt.
        input_tokens: u64,
        /// Those of them that a prompt before had left behind and that were not decoded again.
        cached_input_tokens: u64,
        /// Tokens of the answer.
        output_tokens: u64,
        /// Time that the prompt took, in milliseconds.
        prompt_ms: f64,
        /// Time that the answer took from its first token on, in milliseconds.
        generation_ms: f64,
        /// How fast the answer was written: its tokens after the first one, for each second.
        tokens_per_second: f64,
        /// How many generations the model takes at a time.
        slots: u32,
        /// Most of them that the model went on with at once while this answer was written, that one included.
        slots_busy: u32,
        /// Name of the model.
        model: String,
    }

    /// How long the turn waited for its slot (session chat `queue_stats`).
    QueueStats {
        /// Whether it waited at all: more than 10 ms.
        was_queued: bool,
        /// Place in the queue when it came; 0 is at once.
        queue_position: u32;
        /// How long it waited, in milliseconds.
        queue_wait_ms: f64,
    }
}

impl Usage {
    /// What both consumed together, one after the other: tokens and times add up. A number that only one of them has is that one's; the model's
    /// name is the first one's, if it has one. How fast the first one was and what it shared its model with do not add up: they stay its own,
    /// and nobody's where it has none.
    #[must_use]
    pub fn plus(mut self, more: &Self) -> Self {
        fn sum<T: Copy + std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.zip(b).map(|(a, b)| a + b).or(a).or(b)
        }
        self.input_tokens = sum(self.input_tokens, more.input_tokens);
        self.cached_input_tokens = sum(self.cached_input_tokens, more.cached_input_tokens);
        self.output_tokens = sum(self.output_tokens, more.output_tokens);
        self.prompt_ms = sum(self.prompt_ms, more.prompt_ms);
        self.generation_ms = sum(self.generation_ms, more.generation_ms);
        self.model = self.model.or_else(|| more.model.clone());
        self
    }
}

impl Optional for Usage {}
impl Optional for QueueStats {}

/// What closes a turn.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Metadata {
    /// Evidence for the answer, in the order of its numbers in the text.
    pub citations: Vec<Citation>,
    /// How the answer was found, for example `hybrid`.
    pub mode: Option<String>,
    /// Names of the tools that took part.
    pub tools_used: Vec<String>,
    /// What the turn consumed.
    pub usage: Option<Usage>,
    /// How long it waited.
    pub queue_stats: Option<QueueStats>,
    /// Members of the application's own. They cannot take a name that the metadata already has: the one of the metadata wins.
    pub extra: Map<String, Value>,
    /// Events that a policy or a limit kept off the wire.
    pub events_dropped: u64,
    /// Whether citations or late events were cut short to fit the limit of the wire.
    pub truncated: bool,
}

impl Metadata {
    /// Sets the citations.
    #[must_use]
    pub fn citations(mut self, citations: Vec<Citation>) -> Self {
        self.citations = citations;
        self
    }

    /// Sets the mode.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Sets the names of the tools.
    #[must_use]
    pub fn tools_used(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools_used = tools.into_iter().map(Into::into).collect();
        self
    }

    /// Sets what the turn consumed.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Adds a member of the application's own.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_add_up() {
        let judged = Usage::new().input_tokens(3u64).prompt_ms(1.5).model("m");
        let written = Usage::new().input_tokens(4u64).output_tokens(5u64);
        let both = Usage::new()
            .input_tokens(7u64)
            .output_tokens(5u64)
            .prompt_ms(1.5)
            .model("m");
        assert_eq!(written.clone().plus(&judged), both);
        assert_eq!(judged.clone().plus(&written), both);
        let fast = |usage: Usage| usage.tokens_per_second(80.0).slots(4u32).slots_busy(2u32);
        assert_eq!(fast(written.clone()).plus(&judged), fast(both.clone()));
        assert_eq!(
            written.plus(&fast(judged)),
            both,
            "how fast another was says nothing of this one"
        );
        assert_eq!(Usage::default().plus(&Usage::default()), Usage::default());
    }
}
