//! The answers of humans that a request of any protocol brings with it.

use serde_json::Value;

/// A human's answer, in a request that continues a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HumanAnswer {
    /// The question's id.
    pub request_id: String,
    /// The answer.
    pub verdict: Verdict,
}

/// What a human answers.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// Yes or no.
    Approval(bool),
    /// One of the options, or free text.
    Response(Value),
    /// The human does not answer. This counts as no if the question has a no; otherwise it stops
    /// the turn.
    Abandoned,
}
