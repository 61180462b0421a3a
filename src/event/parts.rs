//! What events are made of: records within records, and words from closed sets.

use serde::{Deserialize, Serialize};

use crate::record::{Optional, record};

record! {
    /// How many chunks of each level a retrieval found (Forge).
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
        /// Score before any widening, 0 to 1.
        score: f64,
        /// Whether it was widened to its parent.
        expanded: bool,
        /// Score after widening, 0 to 1.
        new_score: f64,
    }

    /// One claim of the answer and what the sources say to it.
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
        /// The document that it stands in.
        document_id: String,
        /// Its text.
        text: String,
        /// The pages that it stands on, counted from 1; empty where the document has none.
        page_numbers: [u32];
        /// Name of the document.
        title: String,
        /// `L1` section, `L2` passage, `L3` sentence.
        level: String,
        /// Score of the search that found it.
        score: f64,
        /// The heading that it stands under.
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

/// `choice! { /// docs  Name { Variant = "spelling" } }`: a closed set of words. An unknown word makes the whole event a
/// [`Custom`] one when read, so nothing of it is lost.
macro_rules! choice {
    ($( $(#[$meta:meta])* $Name:ident { $($(#[$variant_meta:meta])* $Variant:ident = $word:literal),* $(,)? } )*) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $Name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $Variant,)*
        }

        impl $Name {
            /// The word on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$Variant => $word,)* }
            }
        }
    )* };
}

choice! {
    /// A judge's decision.
    Verdict {
        /// Good enough.
        Approved = "approved",
        /// Not good enough.
        Rejected = "rejected",
    }

    /// How hard a question looks.
    Complexity {
        /// One search will do.
        Simple = "simple",
        /// A few searches.
        Moderate = "moderate",
        /// Several steps.
        Complex = "complex",
    }

    /// How a question is answered.
    Mode {
        /// By an agent that chooses its tools.
        Agentic = "agentic",
        /// By a fixed sequence.
        Direct = "direct",
    }

    /// What follows from the quality gate.
    CragAction {
        /// The chunks will do.
        Proceed = "proceed",
        /// Search again.
        ReRetrieve = "re-retrieve",
        /// Widen chunks to their parents.
        Expand = "expand",
    }

    /// The quality gate's classes.
    CragClass {
        /// Answers.
        Correct = "CORRECT",
        /// May answer.
        Ambiguous = "AMBIGUOUS",
        /// Does not answer.
        Incorrect = "INCORRECT",
    }

    /// What the sources say to a claim.
    ClaimVerdict {
        /// They support it.
        Supported = "SUPPORTED",
        /// They support a part of it.
        PartiallySupported = "PARTIALLY_SUPPORTED",
        /// They do not support it.
        Unsupported = "UNSUPPORTED",
    }

    /// How a request for consent ended.
    AuthorizationOutcome {
        /// Given.
        Authorized = "authorized",
        /// Refused.
        Declined = "declined",
        /// Something went wrong.
        Failed = "failed",
        /// Nobody answered in time.
        TimedOut = "timed-out",
    }
}

impl Optional for Levels {}
