//! The seams to models: what writes, what embeds, what ranks. And what they share: a prompt, a stream of pieces, their errors.
//!
//! A pipeline holds each as an `Arc<dyn …>` and chooses at start. Nothing here knows llama.cpp, HTTP or a store.
//!
//! ```
//! # use ragwire_rag::models::{LanguageModel, ModelError, Prompt, Shape};
//! # async fn ask(model: &dyn LanguageModel) -> Result<(), ModelError> {
//! let prompt = Prompt::user("Is the sky blue? Answer yes or no.").shape(Shape::Gbnf(r#"root ::= "yes" | "no""#.into()));
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
#[cfg(test)]
pub(crate) mod test_models;
#[cfg(feature = "upstream")]
pub mod upstream;

use std::error::Error;
use std::fmt::Debug;
use std::pin::Pin;

use serde_json::Value;
use tokio::sync::mpsc;

use ragwire::Usage;

/// A future behind a seam: one allocation, which does not show beside a model's work.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Most tokens of an answer, where a prompt does not say.
pub const MAX_TOKENS: u32 = 1_024;
/// Pieces that wait for a reader: a reader that is further behind holds up its own generation and nobody else's.
pub const PIECES_AHEAD: usize = 64;

/// Who says a message of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sets what the model is to do.
    System,
    /// Asks.
    User,
    /// Answered before.
    Assistant,
}

impl Role {
    /// The word in chat templates and in OpenAI's API: `system`, `user`, `assistant`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ChatMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: String,
}

impl ChatMessage {
    /// `role` says `content`.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
        }
    }
}

/// What an answer has to look like.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// Any text.
    #[default]
    Text,
    /// JSON that this JSON schema accepts. The model cannot write anything else; it can run out of tokens in the middle.
    Json(Value),
    /// Text of a grammar in llama.cpp's GBNF, with the start symbol `root`. Not every model can: [`ModelError::Unsupported`].
    Gbnf(String),
}

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Sampling {
    /// 0 takes the likeliest token always; more is bolder.
    pub temperature: f32,
    /// Only this many likeliest tokens; 0 for all.
    pub top_k: u32,
    /// Only the likeliest tokens whose probabilities sum up to this; 1 for all.
    pub top_p: f32,
    /// Only tokens at least this share as likely as the likeliest; 0 for all.
    pub min_p: f32,
    /// How much tokens of the last 64 are held down; 1 not at all.
    pub repeat_penalty: f32,
    /// The same seed and prompt give the same answer; none takes a new one each time.
    pub seed: Option<u32>,
}

impl Sampling {
    /// The likeliest token always: for judgements, and for answers that quote.
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

    /// Sets how many likeliest tokens are chosen from.
    #[must_use]
    pub fn top_k(mut self, top_k: u32) -> Self {
        self.top_k = top_k;
        self
    }

    /// Sets the sum of probabilities that is chosen from.
    #[must_use]
    pub fn top_p(mut self, top_p: f32) -> Self {
        self.top_p = top_p;
        self
    }

    /// Sets the least share of the likeliest token's probability.
    #[must_use]
    pub fn min_p(mut self, min_p: f32) -> Self {
        self.min_p = min_p;
        self
    }

    /// Sets how much repetition is held down.
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

/// What a model is to write.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Prompt {
    /// The conversation, oldest first.
    pub messages: Vec<ChatMessage>,
    /// Most tokens of the answer.
    pub max_tokens: u32,
    /// How each is chosen.
    pub sampling: Sampling,
    /// Texts that end the answer; they are not part of it.
    pub stop: Vec<String>,
    /// What the answer has to look like.
    pub shape: Shape,
}

impl Prompt {
    /// A conversation: greedy, up to [`MAX_TOKENS`] tokens of text.
    pub fn new(messages: Vec<ChatMessage>) -> Self {
        Self {
            messages,
            max_tokens: MAX_TOKENS,
            sampling: Sampling::default(),
            stop: Vec::new(),
            shape: Shape::default(),
        }
    }

    /// One message of the user's.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(vec![ChatMessage::new(Role::User, content)])
    }

    /// Sets the most tokens of the answer.
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

    /// Sets what the answer has to look like.
    #[must_use]
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }
}

/// Why a model did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The prompt and the answer that was asked for do not fit the model's context. Nothing was decoded.
    #[error("the prompt has {prompt} tokens and the model takes {limit}")]
    Overflow {
        /// Tokens of the prompt.
        prompt: u32,
        /// Most tokens that a prompt may have beside the answer asked for.
        limit: u32,
    },
    /// The prompt is empty, or one of its settings is out of range.
    #[error("the prompt cannot be used: {0}")]
    BadPrompt(String),
    /// The grammar or the JSON schema is none that can be followed.
    #[error("the shape of the answer cannot be used: {0}")]
    BadShape(String),
    /// This model cannot do that.
    #[error("the model cannot do that: {0}")]
    Unsupported(&'static str),
    /// As much waits already as may.
    #[error("the model has too much to do")]
    Busy,
    /// It could not be reached, or did not answer in time.
    #[error("the model is not there")]
    Unavailable(#[source] Option<Box<dyn Error + Send + Sync>>),
    /// It failed in the middle.
    #[error("the model failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// It was shut down.
    #[error("the model was shut down")]
    Closed,
}

impl ModelError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Overflow { .. } => "context_overflow",
            Self::BadPrompt(_) => "bad_prompt",
            Self::BadShape(_) => "bad_shape",
            Self::Unsupported(_) => "model_unsupported",
            Self::Busy => "model_busy",
            Self::Unavailable(_) => "model_unavailable",
            Self::Failed(_) => "model_failed",
            Self::Closed => "model_closed",
        }
    }
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// The model said so, or a stop text came.
    Stop,
    /// There were as many tokens as the prompt or the context allows.
    Length,
}

/// What a whole generation came to. Every number is measured or left out.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Finished {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u32>,
    /// Those of them that another prompt had left behind and that were not decoded again.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer.
    pub answer_tokens: Option<u32>,
    /// From the first slice of the prompt to the first token, in milliseconds.
    pub prompt_ms: Option<f64>,
    /// From the first token to the last, in milliseconds.
    pub generation_ms: Option<f64>,
    /// How many generations the model takes at a time.
    pub slots: Option<u32>,
    /// Most generations that one step of the model went on with while this one ran, itself included.
    pub slots_busy: Option<u32>,
}

impl Finished {
    /// Ended for `reason`; nothing was measured yet.
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

    /// Tokens of the answer for each second. The first one came before the time of the others began; where it is the only one there is no rate.
    pub fn tokens_per_second(&self) -> Option<f64> {
        let (tokens, ms) = (self.answer_tokens?.checked_sub(1)?, self.generation_ms?);
        let rate = f64::from(tokens) / (ms / 1e3);
        (tokens > 0 && rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// The same as a turn tells it.
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

/// What a model sends to a [`Generation`].
#[derive(Debug)]
pub enum Piece {
    /// The next text; never empty, always whole characters.
    Text(String),
    /// The end, and nothing after it.
    Finished(Finished),
    /// The end in a failure, and nothing after it.
    Failed(ModelError),
}

/// An answer on its way. Dropping it stops the model within one step.
#[derive(Debug)]
pub struct Generation {
    pieces: mpsc::Receiver<Piece>,
    finished: Option<Finished>,
    over: bool,
}

impl Generation {
    /// What a model of one's own sends through, and what its caller reads: at most [`PIECES_AHEAD`] pieces lie between. A sender that is
    /// dropped without an end is a failure.
    pub fn channel() -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(PIECES_AHEAD);
        let generation = Self {
            pieces,
            finished: None,
            over: false,
        };
        (sender, generation)
    }

    /// A generation that failed before it began.
    pub fn failed(error: ModelError) -> Self {
        let (sender, generation) = Self::channel();
        // The channel is new: there is room.
        let _ = sender.try_send(Piece::Failed(error));
        generation
    }

    /// The next text, and nothing after the end. An error is the end as well.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// Whatever ended the generation early.
    pub async fn next(&mut self) -> Option<Result<String, ModelError>> {
        if self.over {
            return None;
        }
        match self.pieces.recv().await {
            Some(Piece::Text(text)) => Some(Ok(text)),
            Some(Piece::Finished(finished)) => {
                self.over = true;
                self.finished = Some(finished);
                None
            }
            Some(Piece::Failed(error)) => {
                self.over = true;
                Some(Err(error))
            }
            None => {
                self.over = true;
                Some(Err(ModelError::Closed))
            }
        }
    }

    /// What it came to, once [`next`](Self::next) has given nothing.
    pub fn finished(&self) -> Option<Finished> {
        self.finished
    }

    /// The whole text and what it came to.
    ///
    /// # Cancel safety
    /// Dropping the future stops the model.
    ///
    /// # Errors
    /// Whatever ended the generation early; the text until then is lost.
    pub async fn whole(mut self) -> Result<(String, Finished), ModelError> {
        let mut whole = String::new();
        while let Some(piece) = self.next().await {
            whole.push_str(&piece?);
        }
        // `next` gives nothing only after `Finished`.
        self.finished
            .map(|finished| (whole, finished))
            .ok_or(ModelError::Closed)
    }
}

/// Writes.
pub trait LanguageModel: Debug + Send + Sync + 'static {
    /// The model's name in events and usage.
    fn name(&self) -> &str;

    /// Tokens that prompt and answer may have together.
    fn context_tokens(&self) -> u32;

    /// How many tokens a prompt has, its template included. What cannot count estimates upwards.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>>;

    /// Begins to write. It never blocks; whatever goes wrong is told by the generation.
    fn generate(&self, prompt: Prompt) -> Generation;
}

/// Which side of a search a text is on; models trained on both sides embed them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// What is searched for.
    Query,
    /// What is found.
    Passage,
}

/// Turns texts into vectors.
pub trait Embed: Debug + Send + Sync + 'static {
    /// The model's name.
    fn name(&self) -> &str;

    /// Length of every vector.
    fn dimensions(&self) -> usize;

    /// One vector of length 1 for each text, in order. A text longer than the model takes is cut.
    ///
    /// # Cancel safety
    /// Dropping the future gives up what has not begun.
    ///
    /// # Errors
    /// One error for all texts.
    fn embed(&self, side: Side, texts: Vec<String>) -> Boxed<'_, Result<Vec<Vec<f32>>, ModelError>>;

    /// One vector of length 1 for each token of each text, in order, for late interaction ([`max_sim`]).
    ///
    /// # Cancel safety
    /// Dropping the future gives up what has not begun.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] where there are none; else as [`embed`](Self::embed).
    fn embed_tokens(
        &self,
        side: Side,
        texts: Vec<String>,
    ) -> Boxed<'_, Result<Vec<Vec<Vec<f32>>>, ModelError>>;
}

/// Scores passages against a query.
pub trait Rank: Debug + Send + Sync + 'static {
    /// How it is done, for the events: `colbert` (MaxSim over the vectors of tokens), `cross-encoder`, `lexical`.
    fn method(&self) -> &str;

    /// One score for each passage, in order; more is better, comparable within one call only.
    ///
    /// # Cancel safety
    /// Dropping the future gives up what has not begun.
    ///
    /// # Errors
    /// One error for all passages.
    fn rank<'a>(&'a self, query: &'a str, passages: Vec<String>) -> Boxed<'a, Result<Vec<f32>, ModelError>>;
}

/// Late interaction (Khattab and Zaharia, 2020): for each vector of the query its best product among those of the passage, summed up. 0
/// where one side is empty.
pub fn max_sim(query: &[Vec<f32>], passage: &[Vec<f32>]) -> f32 {
    let best = |one: &Vec<f32>| passage.iter().map(|other| dot(one, other)).reduce(f32::max);
    query.iter().filter_map(best).sum()
}

/// The product of two vectors, which is their cosine where both have length 1.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Scales a vector to length 1. A vector of zeros stays one.
pub fn normalize(vector: &mut [f32]) {
    let length = dot(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}
