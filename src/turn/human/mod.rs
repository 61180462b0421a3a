//! Questions to a human: the orchestrator asks and waits, and the application answers through the
//! turn's handle.

pub(crate) mod open;
mod question;

pub use open::{AnswerError, AnswerOutcome, OpenQuestion};
pub use question::{Ask, AskError, Authorize};
