//! The metadata at the end of a turn: citations, tools, usage, and members that the application
//! adds.

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
        /// The supporting words, exactly as in the document.
        supporting_quote: String,
        /// The tool that retrieved the passage.
        source_tool: String;
        /// The page, counted from 1 (from 0 if the document does).
        page_number: u32,
        /// Score in the search result, on the tool's scale.
        score: f64,
        /// The heading of the passage.
        heading: String,
    }

    /// The resources that the turn consumed. Every number is measured or absent.
    #[derive(Default)]
    Usage {;
        /// Number of prompt tokens.
        input_tokens: u64,
        /// Number of prompt tokens that were reused from an earlier prompt and not decoded again.
        cached_input_tokens: u64,
        /// Number of generated tokens: those of the answer and those of the judges.
        output_tokens: u64,
        /// Number of tokens of the answer alone, if `output_tokens` has others too.
        answer_tokens: u64,
        /// Time for the prompt, in milliseconds.
        prompt_ms: f64,
        /// Time for the answer after its first token, in milliseconds.
        generation_ms: f64,
        /// Answer tokens per second, not counting the first one.
        tokens_per_second: f64,
        /// Number of generations that the model can run at the same time.
        slots: u32,
        /// Maximum number of generations that ran at the same time during this one, including it.
        slots_busy: u32,
        /// Name of the model.
        model: String,
    }

    /// How long the turn was on the waiting list (session chat `queue_stats`).
    QueueStats {
        /// Whether it waited for more than 10 ms.
        was_queued: bool,
        /// Position when it joined; 0 if it was admitted at once.
        queue_position: u32;
        /// Waiting time in milliseconds.
        queue_wait_ms: f64,
    }
}

impl Usage {
    /// Adds the usage of a later generation: tokens and times add up, and a number that only one of
    /// them has is kept. The model's name is that of `self`, or else that of `more`. Speed and
    /// slots do not add up: they stay those of `self`, even if absent.
    #[must_use]
    pub fn plus(mut self, more: &Self) -> Self {
        fn sum<T: Copy + std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.zip(b).map(|(a, b)| a + b).or(a).or(b)
        }
        self.input_tokens = sum(self.input_tokens, more.input_tokens);
        self.cached_input_tokens = sum(self.cached_input_tokens, more.cached_input_tokens);
        self.output_tokens = sum(self.output_tokens, more.output_tokens);
        self.answer_tokens = sum(self.answer_tokens, more.answer_tokens);
        self.prompt_ms = sum(self.prompt_ms, more.prompt_ms);
        self.generation_ms = sum(self.generation_ms, more.generation_ms);
        self.model = self.model.or_else(|| more.model.clone());
        self
    }
}

impl Optional for Usage {}
impl Optional for QueueStats {}

/// The metadata at the end of a turn.
///
/// ```
/// use ragwire::{Citation, Metadata, Usage};
///
/// let metadata = Metadata::default()
///     .citations(vec![Citation::new("report.pdf", "report.pdf#3", "forty-two", "bm25").page_number(7u32)])
///     .tools_used(["bm25"])
///     .usage(Usage::new().output_tokens(12u64))
///     .with("request", "r-1");
/// assert_eq!(metadata.citations[0].page_number, Some(7));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Metadata {
    /// Evidence for the answer, in the order of the citation numbers in the text.
    pub citations: Vec<Citation>,
    /// How the answer was retrieved, for example `hybrid`.
    pub mode: Option<String>,
    /// Names of the tools that were used.
    pub tools_used: Vec<String>,
    /// The resources that the turn consumed.
    pub usage: Option<Usage>,
    /// How long the turn waited.
    pub queue_stats: Option<QueueStats>,
    /// Members that the application adds. A member with the name of a field of this struct is
    /// ignored.
    pub extra: Map<String, Value>,
    /// Number of events that a policy or a limit kept off the wire.
    pub events_dropped: u64,
    /// Whether citations or late events were shortened to the wire's limit.
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

    /// Sets the consumed resources.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Adds a member that the application defines.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// Reports that the answer was cut at a limit of tokens or bytes: the member `finish_reason` is
    /// `length`, and wires with a reason of their own have theirs.
    ///
    /// ```
    /// use ragwire::Metadata;
    ///
    /// let metadata = Metadata::default().cut_short();
    /// assert!(metadata.is_cut_short());
    /// assert_eq!(metadata.extra["finish_reason"], "length");
    /// ```
    #[must_use]
    pub fn cut_short(self) -> Self {
        self.with(FINISH_REASON, "length")
    }

    /// Returns `true` if the answer was cut at a limit of tokens or bytes.
    pub fn is_cut_short(&self) -> bool {
        let reason = self.extra.get(FINISH_REASON).and_then(Value::as_str);
        reason.is_some_and(|reason| CUT_REASONS.contains(&reason))
    }

    /// Returns why a completed answer ended, in the words that most protocols share.
    pub(crate) fn finish_reason(&self) -> &'static str {
        if self.is_cut_short() { "length" } else { "stop" }
    }
}

/// The member with the reason why the answer ended.
pub(crate) const FINISH_REASON: &str = "finish_reason";
/// How model servers say that the answer is as long as was allowed.
pub(crate) const CUT_REASONS: [&str; 4] = ["length", "max_tokens", "model_length", "max_output_tokens"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_add_up() {
        let judge = Usage::new().input_tokens(3u64).prompt_ms(1.5).model("m");
        let answer = Usage::new().input_tokens(4u64).output_tokens(5u64);
        let both = Usage::new()
            .input_tokens(7u64)
            .output_tokens(5u64)
            .prompt_ms(1.5)
            .model("m");
        assert_eq!(answer.clone().plus(&judge), both);
        assert_eq!(judge.clone().plus(&answer), both);
        let fast = |usage: Usage| usage.tokens_per_second(80.0).slots(4u32).slots_busy(2u32);
        assert_eq!(fast(answer.clone()).plus(&judge), fast(both.clone()));
        assert_eq!(
            answer.plus(&fast(judge)),
            both,
            "the speed of the later generation is not taken over"
        );
        assert_eq!(Usage::default().plus(&Usage::default()), Usage::default());
    }
}
