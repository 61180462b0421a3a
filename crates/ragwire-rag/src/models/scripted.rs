//! A language model for tests that follows a script: answers in pieces, garbage, errors, silence.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::models::{
    Boxed, FinishReason, Generation, GenerationEnd, LanguageModel, ModelError, Piece, Prompt,
};

/// The reaction to one prompt.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Sends these pieces and stops.
    Says(Vec<String>),
    /// Sends these pieces and reaches its limit of tokens.
    CutOff(Vec<String>),
    /// Sends these pieces after a delay.
    Late(Duration, Vec<String>),
    /// Sends these pieces, then fails.
    Fails(Vec<String>, ModelError),
    /// Sends nothing, forever.
    Hangs,
    /// Drops the sender without an end.
    Vanishes,
    /// Shuts down for good.
    ShutsDown,
}

impl Reply {
    pub(crate) fn says(text: &str) -> Self {
        Self::Says(vec![text.to_owned()])
    }

    pub(crate) fn error(error: ModelError) -> Self {
        Self::Fails(Vec::new(), error)
    }
}

/// Counts one token for every four bytes of a prompt's messages, rounded up, and none for the
/// template.
#[derive(Debug)]
pub(crate) struct Scripted {
    name: &'static str,
    context_tokens: u32,
    replies: Mutex<VecDeque<Reply>>,
    prompts: Mutex<Vec<Prompt>>,
    is_closed: Arc<AtomicBool>,
}

impl Scripted {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_context(1 << 16, replies)
    }

    pub(crate) fn with_context(context_tokens: u32, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            name: "scripted",
            context_tokens,
            replies: Mutex::new(replies.into_iter().collect()),
            prompts: Mutex::default(),
            is_closed: Arc::default(),
        }
    }

    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// The prompts so far.
    pub(crate) fn prompts(&self) -> Vec<Prompt> {
        self.prompts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The last message of each prompt.
    pub(crate) fn asked(&self) -> Vec<String> {
        let last = |prompt: Prompt| prompt.messages.last().map(|message| message.content.clone());
        self.prompts().into_iter().filter_map(last).collect()
    }
}

pub(crate) fn tokens(prompt: &Prompt) -> u32 {
    let bytes: usize = prompt.messages.iter().map(|message| message.content.len()).sum();
    u32::try_from(bytes.div_ceil(4)).unwrap_or(u32::MAX)
}

impl LanguageModel for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    fn context_tokens(&self) -> u32 {
        self.context_tokens
    }

    fn count_tokens<'a>(&'a self, prompt: &'a Prompt) -> Boxed<'a, Result<u32, ModelError>> {
        let is_closed = self.is_closed.load(Ordering::SeqCst);
        let counted = if is_closed {
            Err(ModelError::Closed)
        } else {
            Ok(tokens(prompt))
        };
        Box::pin(std::future::ready(counted))
    }

    #[expect(clippy::disallowed_methods, reason = "a test; the task ends with its reader")]
    fn generate(&self, prompt: Prompt) -> Generation {
        let prompt_tokens = tokens(&prompt);
        self.prompts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(prompt);
        let reply = self
            .replies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let (sender, generation) = Generation::channel();
        let is_closed = Arc::clone(&self.is_closed);
        tokio::spawn(async move {
            let (pieces, end) = match reply {
                None => (
                    Vec::new(),
                    Err(ModelError::BadPrompt("nothing more in the script".to_owned())),
                ),
                Some(Reply::Says(pieces)) => (pieces, Ok(FinishReason::Stop)),
                Some(Reply::CutOff(pieces)) => (pieces, Ok(FinishReason::Length)),
                Some(Reply::Late(after, pieces)) => {
                    tokio::time::sleep(after).await;
                    (pieces, Ok(FinishReason::Stop))
                }
                Some(Reply::Fails(pieces, error)) => (pieces, Err(error)),
                Some(Reply::Hangs) => return sender.closed().await,
                Some(Reply::Vanishes) => return,
                Some(Reply::ShutsDown) => {
                    is_closed.store(true, Ordering::SeqCst);
                    (Vec::new(), Err(ModelError::Closed))
                }
            };
            let answer_tokens = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
            for piece in pieces {
                if sender.send(Piece::Text(piece)).await.is_err() {
                    return;
                }
            }
            let end = match end {
                Ok(reason) => {
                    let mut finished = GenerationEnd::new(reason);
                    finished.prompt_tokens = Some(prompt_tokens);
                    finished.cached_tokens = Some(1);
                    finished.answer_tokens = Some(answer_tokens);
                    finished.prompt_ms = Some(2.5);
                    finished.generation_ms = Some(7.5);
                    (finished.slots, finished.slots_busy) = (Some(4), Some(2));
                    Piece::End(finished)
                }
                Err(error) => Piece::Failed(error),
            };
            // A dropped reader needs no end.
            let _ = sender.send(end).await;
        });
        generation
    }
}
