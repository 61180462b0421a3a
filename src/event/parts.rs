//! The parts of events: nested records, and enums of fixed words.

use serde::{Deserialize, Serialize};

use crate::record::{Optional, record};

record! {
    /// Number of chunks per level in a retrieval's result (Forge).
    Levels {
        /// Sections.
        #[serde(rename = "L1")]
        l1: u32,
        /// Passages.
        #[serde(rename = "L2")]
        l2: u32,
        /// Sentences or propositions.
        #[serde(rename = "L3")]
        l3: u32,
    }

    /// The quality gate's verdict on one chunk.
    CragDetail {
        /// The chunk.
        chunk_id: String,
        /// The verdict.
        classification: CragClass;
        /// Score before the chunk was replaced by its parent, 0 to 1.
        score: f64,
        /// Whether the chunk was replaced by its parent.
        expanded: bool,
        /// Score of the parent, 0 to 1.
        new_score: f64,
    }

    /// One claim of the answer and the verdict of the sources on it.
    ClaimCheck {
        /// The claim.
        claim: String,
        /// The verdict.
        verdict: ClaimVerdict,
    }

    /// One passage behind an answer.
    Source {
        /// The passage.
        chunk_id: String,
        /// Its document.
        document_id: String,
        /// Its text.
        text: String,
        /// Its pages, counted from 1. Empty if the document has no pages.
        page_numbers: [u32];
        /// Name of the document.
        title: String,
        /// `L1` section, `L2` passage, `L3` sentence.
        level: String,
        /// Its score in the search result.
        score: f64,
        /// Its heading.
        heading: String,
    }

    /// One edge of a knowledge graph.
    Triple {
        /// Subject.
        s: String,
        /// Predicate.
        p: String,
        /// Object.
        o: String,
    }
}

/// `choice! { /// docs  Name { Variant = "word" } }` defines an enum of fixed words. An event with
/// an unknown word is read as a [`Custom`](super::Custom) event, so that nothing is lost.
macro_rules! choice {
    ($( $(#[$meta:meta])* $Name:ident { $($(#[$variant_meta:meta])* $Variant:ident = $word:literal),* $(,)? } )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $Name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $Variant,)*
        }

        impl $Name {
            /// Returns the word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)* }
            }
        }
    )* };
}

choice! {
    /// A judge's decision.
    Verdict {
        /// The evidence or draft is good enough.
        Approved = "approved",
        /// The evidence or draft is not good enough.
        Rejected = "rejected",
    }

    /// The difficulty of a question.
    Complexity {
        /// One search is enough.
        Simple = "simple",
        /// It needs a few searches.
        Moderate = "moderate",
        /// It needs several steps.
        Complex = "complex",
    }

    /// The way in which a question is answered.
    Mode {
        /// By an agent that chooses its tools.
        Agentic = "agentic",
        /// By a fixed sequence.
        Direct = "direct",
    }

    /// The action after the quality gate.
    CragAction {
        /// The chunks are good enough.
        Proceed = "proceed",
        /// The pipeline searches again.
        ReRetrieve = "re-retrieve",
        /// Chunks are replaced by their parents.
        Expand = "expand",
    }

    /// The quality gate's verdict on a chunk.
    CragClass {
        /// The chunk answers the question.
        Correct = "CORRECT",
        /// The chunk may answer the question.
        Ambiguous = "AMBIGUOUS",
        /// The chunk does not answer the question.
        Incorrect = "INCORRECT",
    }

    /// The verdict of the sources on a claim.
    ClaimVerdict {
        /// The sources support the claim.
        Supported = "SUPPORTED",
        /// The sources support a part of the claim.
        PartiallySupported = "PARTIALLY_SUPPORTED",
        /// The sources do not support the claim.
        Unsupported = "UNSUPPORTED",
    }

    /// The outcome of a request for consent.
    AuthorizationOutcome {
        /// Consent was given.
        Authorized = "authorized",
        /// Consent was refused.
        Declined = "declined",
        /// The request failed.
        Failed = "failed",
        /// There was no answer in time.
        TimedOut = "timed-out",
    }
}

impl Optional for Levels {}
