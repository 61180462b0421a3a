//! The traits for models that write, embed or rank, and what they share: prompts, streamed
//! generations, errors.
//!
//! A pipeline holds each model as an `Arc<dyn …>` that is chosen at start. The traits know neither
//! llama.cpp nor HTTP nor a store.
//!
//! ```
//! # use ragwire_rag::models::{LanguageModel, ModelError, Prompt, Shape};
//! # async fn ask(model: &dyn LanguageModel) -> Result<(), ModelError> {
//! let prompt = Prompt::user("Is the sky blue?").shape(Shape::Json(serde_json::json!({ "enum":
//! ["yes", "no"] })));
//! let mut generation = model.generate(prompt);
//! while let Some(piece) = generation.next().await {
//!     print!("{}", piece?);
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "llama")]
pub mod llama;
#[cfg(test)]
pub(crate) mod scripted;
mod stored;
#[cfg(test)]
pub(crate) mod test_models;
#[cfg(any(feature = "llama", feature = "upstream"))]
mod trained_prefixes;
#[cfg(feature = "upstream")]
pub mod upstream;

use std::error::Error;
use std::fmt::Debug;
use std::pin::Pin;

use serde_json::Value;
use tokio::sync::mpsc;

use ragwire::Usage;

pub use stored::StoredVectors;

/// A boxed future, as the traits return it. Its allocation is negligible beside a model's work.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Default for [`Prompt::max_tokens`].
pub(crate) const MAX_TOKENS: u32 = 1_024;
/// Number of pieces that may wait for the reader of a generation. A reader that falls further
/// behind pauses its own generation and no other.
pub const PIECES_AHEAD: usize = 64;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The user.
    User,
    /// The model, earlier in the conversation.
    Assistant,
}

impl Role {
    /// The name in chat templates and in OpenAI's API: `system`, `user`, `assistant`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ChatMessage {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
}

impl ChatMessage {
    /// A message by `role`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
        }
    }
}

/// The required form of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// Any text.
    #[default]
    Text,
    /// JSON that conforms to this JSON schema. The model cannot write anything else, but it can run
    /// out of tokens in the middle.
    ///
    /// Schemas must come from the program, not from its clients: engines compile them to grammars,
    /// which can be expensive.
    Json(Value),
}

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// Randomness: 0 always chooses the likeliest token, higher values choose more freely.
    pub temperature: f32,
    /// Chooses among this many likeliest tokens only; 0 disables the limit.
    pub top_k: u32,
    /// Chooses among the likeliest tokens whose probabilities add up to this; 1 disables the limit.
    pub top_p: f32,
    /// Excludes tokens that are less likely than this share of the likeliest; 0 disables the limit.
    pub min_p: f32,
    /// Penalty for tokens that occur among the last 64; 1 disables it.
    pub repeat_penalty: f32,
    /// The same seed and prompt give the same answer; `None` chooses a random seed.
    pub seed: Option<u32>,
}

impl Sampling {
    /// Always the likeliest token: for judgements, and for answers that quote.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repeat_penalty: 1.0,
        seed: None,
    };

    /// Sets the temperature.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = temperature;
        self
    }

    /// Sets the number of likeliest tokens to choose from.
    #[must_use]
    pub fn top_k(mut self, top_k: u32) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets the total probability of the tokens to choose from.
    #[must_use]
    pub fn top_p(mut self, top_p: f32) -> Self {
        self.top_p = top_p;
        self
    }

    /// Sets the least probability relative to the likeliest token.
    #[must_use]
    pub fn min_p(mut self, min_p: f32) -> Self {
        self.min_p = min_p;
        self
    }

    /// Sets the penalty for repetition.
    #[must_use]
    pub fn repeat_penalty(mut self, repeat_penalty: f32) -> Self {
        self.repeat_penalty = repeat_penalty;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub fn seed(mut self, seed: u32) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}

/// A conversation for a model to continue, and how it is to do so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// The conversation, oldest first.
    pub messages: Vec<ChatMessage>,
    /// Length of the longest answer in tokens. Default: 1,024.
    pub max_tokens: u32,
    /// How each token is chosen. Default: greedy.
    pub sampling: Sampling,
    /// Texts that end the answer without being part of it.
    pub stop: Vec<String>,
    /// The required form of the answer.
    pub shape: Shape,
}

impl Prompt {
    /// A prompt for any text, sampled greedily, of at most 1,024 tokens.
    pub fn new(messages: Vec<ChatMessage>) -> Self {
        Self {
            messages,
            max_tokens: MAX_TOKENS,
            sampling: Sampling::default(),
            stop: Vec::new(),
            shape: Shape::default(),
        }
    }

    /// A prompt of one user message.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(vec![ChatMessage::new(Role::User, content)])
    }

    /// Sets the length of the longest answer in tokens.
    #[must_use]
    pub fn max_tokens(mut self, max_tokens: u32) -> Self {
        self.max_tokens = max_tokens;
        self
    }

    /// Sets how tokens are chosen.
    #[must_use]
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Adds a text that ends the answer.
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> Self {
        self.stop.push(text.into());
        self
    }

    /// Sets the required form of the answer.
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }
}

/// Why a request to a model failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The prompt and the requested length of the answer do not fit the model's context. Nothing
    /// was generated.
    #[error("the prompt has {prompt} tokens, but the model takes {limit}")]
    Overflow {
        /// Tokens of the prompt.
        prompt: u32,
        /// Most tokens of a prompt, given the requested length of the answer.
        limit: u32,
    },
    /// The prompt is empty, or one of its settings is out of range.
    #[error("invalid prompt: {0}")]
    BadPrompt(String),
    /// The JSON schema is invalid or not supported.
    #[error("invalid shape of the answer: {0}")]
    BadShape(String),
    /// The model does not support this.
    #[error("not supported by the model: {0}")]
    Unsupported(&'static str),
    /// The queue is full.
    #[error("the model has too much to do")]
    Busy,
    /// The model could not be reached, or did not answer in time.
    #[error("the model is unavailable")]
    Unavailable(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// The server rejects the key, or does not know the model or the route: a retry cannot help.
    #[error("the model server rejects the request")]
    Rejected(#[source] Box<dyn Error + Send + Sync>),
    /// The model failed during its work.
    #[error("the model failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// The model was shut down.
    #[error("the model was shut down")]
    Closed,
}

impl ModelError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Overflow { .. } => "context_overflow",
            Self::BadPrompt(_) => "bad_prompt",
            Self::BadShape(_) => "bad_shape",
            Self::Unsupported(_) => "model_unsupported",
            Self::Busy => "model_busy",
            Self::Unavailable(_) => "model_unavailable",
            Self::Rejected(_) => "model_rejected",
            Self::Failed(_) => "model_failed",
            Self::Closed => "model_closed",
        }
    }
}

/// Why a generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model ended the answer, or a stop text occurred.
    Stop,
    /// The limit of tokens of the prompt or the context was reached.
    Length,
}

/// The figures of a completed generation. Every number is measured or absent.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GenerationEnd {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u32>,
    /// Tokens of the prompt that were reused from another prompt instead of being decoded again.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer.
    pub answer_tokens: Option<u32>,
    /// Milliseconds from the first slice of the prompt to the first token.
    pub prompt_ms: Option<f64>,
    /// Milliseconds from the first token to the last.
    pub generation_ms: Option<f64>,
    /// Number of generations that the model can run at a time.
    pub slots: Option<u32>,
    /// Largest number of generations in one step of the model while this one ran, itself included.
    pub slots_busy: Option<u32>,
}

impl GenerationEnd {
    /// A generation that ended for `reason`, without figures.
    pub fn new(reason: FinishReason) -> Self {
        Self {
            reason,
            prompt_tokens: None,
            cached_tokens: None,
            answer_tokens: None,
            prompt_ms: None,
            generation_ms: None,
            slots: None,
            slots_busy: None,
        }
    }

    /// Tokens per second after the first token, which came before the time began. `None` if there
    /// is only one token.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let (tokens, ms) = (self.answer_tokens?.checked_sub(1)?, self.generation_ms?);
        let rate = f64::from(tokens) / (ms / 1e3);
        (tokens > 0 && rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// The figures as a turn reports them.
    pub fn usage(&self, model: &str) -> Usage {
        let mut usage = Usage::new().model(model);
        usage.input_tokens = self.prompt_tokens.map(u64::from);
        usage.cached_input_tokens = self.cached_tokens.map(u64::from);
        usage.output_tokens = self.answer_tokens.map(u64::from);
        usage.prompt_ms = self.prompt_ms;
        usage.generation_ms = self.generation_ms;
        usage.tokens_per_second = self.tokens_per_second();
        usage.slots = self.slots;
        usage.slots_busy = self.slots_busy;
        usage
    }
}

/// A message from a model to its [`Generation`].
#[derive(Debug)]
pub enum Piece {
    /// More text; never empty, always whole characters.
    Text(String),
    /// The end; nothing may follow.
    End(GenerationEnd),
    /// The end in a failure; nothing may follow.
    Failed(ModelError),
}

/// A streamed answer. Dropping it stops the model within one step.
#[derive(Debug)]
pub struct Generation {
    pieces: mpsc::Receiver<Piece>,
    finished: Option<GenerationEnd>,
    has_ended: bool,
}

impl Generation {
    /// Creates a generation and the sender for its model. At most 64 pieces wait between them. A
    /// sender that is dropped before the end makes the generation fail.
    pub fn channel() -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let generation = Self {
            pieces,
            finished: None,
            has_ended: false,
        };
        (sender, generation)
    }

    /// A generation that failed before it began.
    pub fn failed(error: ModelError) -> Self {
        let (sender, generation) = Self::channel();
        // The channel is new, so there is room.
        let _ = sender.try_send(Piece::Failed(error));
        generation
    }

    /// Waits for the next text. Returns `None` after the end; an error is the end as well.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// The error that ended the generation early.
    pub async fn next(&mut self) -> Option<Result<String, ModelError>> {
        if self.has_ended {
            return None;
        }
        match self.pieces.recv().await {
            Some(Piece::Text(text)) => Some(Ok(text)),
            Some(Piece::End(finished)) => {
                self.has_ended = true;
                self.finished = Some(finished);
                None
            }
            Some(Piece::Failed(error)) => {
                self.has_ended = true;
                Some(Err(error))
            }
            None => {
                self.has_ended = true;
                Some(Err(ModelError::Closed))
            }
        }
    }

    /// The figures of the generation, after [`next`](Self::next) has returned `None`.
    pub fn finished(&self) -> Option<GenerationEnd> {
        self.finished
    }

    /// Waits for the whole text and the figures.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the model.
    ///
    /// # Errors
    ///
    /// The error that ended the generation early; the text so far is lost.
    pub async fn whole(mut self) -> Result<(String, GenerationEnd), ModelError> {
        let mut whole = String::new();
        while let Some(piece) = self.next().await {
            whole.push_str(&piece?);
        }
        // `next` returns `None` only after `Piece::End`.
        self.finished
            .map(|finished| (whole, finished))
            .ok_or(ModelError::Closed)
    }
}

/// A language model.
pub trait LanguageModel: Debug + Send + Sync + 'static {
    /// The model's name in events and usage.
    fn name(&self) -> &str;

    /// Number of tokens that prompt and answer may have together.
    fn context_tokens(&self) -> u32;

    /// Counts the tokens of a prompt, including its template. A model that cannot count
    /// overestimates.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>>;

    /// Starts to write. Never blocks; errors are reported by the generation.
    fn generate(&self, prompt: Prompt) -> Generation;
}

/// The role of a text in a search; models trained on both roles embed them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The text that is searched for.
    Query,
    /// The text that is found.
    Passage,
}

/// An embedding model.
pub trait Embed: Debug + Send + Sync + 'static {
    /// The model's name.
    fn name(&self) -> &str;

    /// Length of every vector.
    fn dimensions(&self) -> usize;

    /// Returns what the vectors of passages depend on besides the texts and
    /// [`dimensions`](Self::dimensions): the model, the prefix of passages, pooling, truncation.
    /// Vectors that were kept under another identity are computed again. Default: the
    /// [`name`](Self::name).
    fn identity(&self) -> String {
        self.name().to_owned()
    }

    /// Embeds texts. Returns one vector of length 1 for each text, in order; a text that is too
    /// long for the model is truncated.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons what has not begun.
    ///
    /// # Errors
    ///
    /// One error for all texts.
    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>>;

    /// Embeds the tokens of texts, for late interaction ([`max_sim`]). Returns one vector of length
    /// 1 for each token of each text, in order.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons what has not begun.
    ///
    /// # Errors
    ///
    /// [`ModelError::Unsupported`] if the model has no vectors of tokens; otherwise as
    /// [`embed`](Self::embed).
    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>>;
}

/// A model that ranks passages.
pub trait Rank: Debug + Send + Sync + 'static {
    /// The ranking method, for events: `colbert` (MaxSim over the vectors of tokens),
    /// `cross-encoder`, `lexical`.
    fn method(&self) -> &str;

    /// Scores passages against a query. Returns one score for each passage, in order; higher is
    /// better, and scores are comparable within one call only.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future abandons what has not begun.
    ///
    /// # Errors
    ///
    /// One error for all passages.
    fn rank<'a>(&'a self, query: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>>;
}

/// Late interaction (Khattab and Zaharia, 2020): the sum, over the vectors of the query, of the
/// best dot product with a vector of the passage. 0 if one side is empty.
pub fn max_sim(query: &[Vec<f32>], passage: &[Vec<f32>]) -> f32 {
    let best = |one: &Vec<f32>| passage.iter().map(|other| dot(one, other)).reduce(f32::max);
    query.iter().filter_map(best).sum()
}

/// The dot product of two vectors: their cosine if both have length 1.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Scales a vector to length 1. A zero vector is unchanged.
pub fn normalize(vector: &mut [f32]) {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}
