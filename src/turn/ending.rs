//! The end of a turn as the orchestrator and the application see it.

use std::error::Error;
use std::fmt;
use std::pin::Pin;

use super::id::TurnId;
use crate::frame::{End, Status};

/// Any error of an orchestrator. The message of a [`Failure`](crate::Failure) reaches the reader;
/// any other error is only logged.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The end of a turn, passed to [`TurnBuilder::before_end`](super::TurnBuilder::before_end) before
/// the reader gets it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ending {
    /// The turn.
    pub id: TurnId,
    /// The end of the turn. It is `stopped` if the reader disconnected.
    pub end: End,
    /// The answer so far, at most 1 MiB of it.
    pub text: String,
}

impl Ending {
    /// Returns the text that a reader of a text wire ends up with: the answer, followed by the
    /// failure message if the turn failed.
    pub fn answer(&self) -> String {
        match &self.end.status {
            Status::Failed(failure) if self.text.is_empty() => failure.message.clone().into_owned(),
            Status::Failed(failure) => format!("{}\n\n{}", self.text, failure.message),
            Status::Completed | Status::Stopped => self.text.clone(),
        }
    }
}

/// Prints an error with all its sources.
pub(super) struct Chain<'a>(pub(super) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

pub(super) type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The application's own work before the end.
pub(super) struct Hook(Box<dyn FnOnce(Ending) -> HookFuture + Send>);

impl Hook {
    pub(super) fn new<F>(hook: impl FnOnce(Ending) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Box::new(|ending| Box::pin(hook(ending))))
    }

    pub(super) fn call(self, ending: Ending) -> HookFuture {
        (self.0)(ending)
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_printed_with_all_its_sources() {
        #[derive(Debug, thiserror::Error)]
        #[error("no answer")]
        struct NoAnswer(#[source] std::io::Error);
        let refused = std::io::Error::other("connection refused");
        assert_eq!(Chain(&refused).to_string(), "connection refused");
        assert_eq!(
            Chain(&NoAnswer(refused)).to_string(),
            "no answer: connection refused"
        );
    }
}
