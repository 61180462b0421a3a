//! Prepares prompts on a separate thread: checks them, tokenizes them and compiles their grammars,
//! so that neither a long text nor a large grammar delays the running answers.
//!
//! The thread shares the model's weights and vocabulary, which do not change, and does not use the
//! context.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llama_cpp_2::model::LlamaModel;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::outlet::Outlet;
use super::sampling::{self, Chooser, Fault};
use super::slot::PreparedRequest;
use super::stop::Stop;
use super::template::Template;
use super::text::Answer;
use crate::models::{ChatMessage, ModelError, Piece, Prompt};

/// A request from a handle.
pub(super) enum Request {
    /// Generates an answer.
    Generate {
        prompt: Box<Prompt>,
        sender: mpsc::Sender<Piece>,
        place: OwnedSemaphorePermit,
    },
    /// Counts the tokens of a prompt.
    Count {
        messages: Vec<ChatMessage>,
        reply: oneshot::Sender<Result<u32, ModelError>>,
    },
}

/// Prepares prompts until all handles are dropped.
pub(super) struct Preparer {
    pub(super) model: Arc<LlamaModel>,
    pub(super) template: Template,
    /// Number of tokens that prompt and answer may have together.
    pub(super) context_tokens: u32,
    pub(super) stop: Arc<Stop>,
}

impl Preparer {
    pub(super) fn serve(
        &self,
        requests: &mut mpsc::Receiver<Request>,
        ready: &mpsc::Sender<PreparedRequest>,
    ) {
        while let Some(request) = requests.blocking_recv() {
            match request {
                Request::Generate {
                    prompt,
                    sender,
                    place,
                } => self.generate(*prompt, sender, place, ready),
                Request::Count { messages, reply } => {
                    let count = caught(|| self.tokens(&messages, u32::MAX)).map(|tokens| tokens.len());
                    // The caller may have dropped its future.
                    let _ = reply.send(count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)));
                }
            }
        }
    }

    fn generate(
        &self,
        prompt: Prompt,
        sender: mpsc::Sender<Piece>,
        place: OwnedSemaphorePermit,
        ready: &mpsc::Sender<PreparedRequest>,
    ) {
        let Some(outlet) = Outlet::new(sender) else { return };
        if self.stop.is_set() {
            return outlet.fail(ModelError::Closed);
        }
        let made = caught(|| {
            sampling::check(&prompt)?;
            let limit = self.context_tokens.saturating_sub(prompt.max_tokens);
            let tokens = self.tokens(&prompt.messages, limit)?;
            let chooser = Chooser::new(&self.model, &prompt, &tokens)?;
            Ok((tokens, chooser))
        });
        let (tokens, chooser) = match made {
            Ok(made) => made,
            Err(error) => return outlet.fail(error),
        };
        let prepared = PreparedRequest {
            tokens,
            max_tokens: prompt.max_tokens,
            chooser,
            answer: Answer::new(prompt.stop),
            outlet,
            place,
        };
        // The channel has capacity for all generations that may run and wait; sending fails only
        // after the engine has ended.
        if let Err(mpsc::error::SendError(prepared)) = ready.blocking_send(prepared) {
            prepared.outlet.fail(ModelError::Closed);
        }
    }

    /// Returns the tokens of a prompt, at most `limit`.
    fn tokens(
        &self,
        messages: &[ChatMessage],
        limit: u32,
    ) -> Result<Vec<llama_cpp_2::token::LlamaToken>, ModelError> {
        let overflow = |prompt| ModelError::Overflow { prompt, limit };
        let tokens = self
            .template
            .tokens(&self.model, messages, limit)?
            .map_err(overflow)?;
        match u32::try_from(tokens.len()) {
            Ok(prompt) if prompt <= limit => Ok(tokens),
            Ok(prompt) => Err(overflow(prompt)),
            Err(_) => Err(overflow(u32::MAX)),
        }
    }
}

/// Runs `work` and converts a panic to an error.
fn caught<T>(work: impl FnOnce() -> Result<T, ModelError>) -> Result<T, ModelError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Fault::Panicked(message(&*panic)).into()))
}

/// Returns the message of a panic.
pub(super) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
