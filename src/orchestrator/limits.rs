//! The limits of a search: those of TrustGraph's requests, under their names and with its service's
//! defaults.
//!
//! Every limit has a lower bound, and an upper bound that a server can afford for an untrusted
//! request. Deserialising does not check the bounds; `check` does.

use serde::{Deserialize, Serialize};

/// A limit that is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be a whole number from {least} to {most}")]
#[non_exhaustive]
pub struct LimitError {
    /// TrustGraph's name of the limit.
    pub name: &'static str,
    /// The smallest allowed value.
    pub least: usize,
    /// The largest allowed value.
    pub most: usize,
}

impl LimitError {
    /// Returns a stable code for programs.
    pub fn code(&self) -> &'static str {
        "bad_limit"
    }
}

/// The default and the bounds of one limit, for documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limit {
    /// TrustGraph's name of the limit.
    pub name: &'static str,
    /// What it limits.
    pub description: &'static str,
    /// The value of a request without it.
    pub default: usize,
    /// The smallest allowed value.
    pub least: usize,
    /// The largest allowed value.
    pub most: usize,
}

macro_rules! limits {
    ($(#[$meta:meta])* $Limits:ident { $($(#[doc = $doc:literal])+ $field:ident $name:literal $default:literal in $least:literal..=$most:literal;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct $Limits {
            $($(#[doc = $doc])+ #[serde(rename = $name)] pub $field: usize,)*
        }

        impl Default for $Limits {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $Limits {
            /// TrustGraph's names of the limits.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns all limits, in the order of [`NAMES`](Self::NAMES).
            pub fn describe() -> Vec<Limit> {
                vec![$(Limit {
                    name: $name,
                    description: concat!($($doc),+).trim_ascii_start(),
                    default: $default,
                    least: $least,
                    most: $most,
                },)*]
            }

            /// Sets a limit by its name. Returns `false` if the name is unknown.
            ///
            /// # Errors
            ///
            /// The value is out of bounds; nothing is changed.
            pub fn set(&mut self, name: &str, value: u64) -> Result<bool, LimitError> {
                match name {
                    $($name => {
                        let bounds: std::ops::RangeInclusive<usize> = $least..=$most;
                        let within = usize::try_from(value).ok().filter(|value| bounds.contains(value));
                        self.$field = within.ok_or(LimitError { name: $name, least: $least, most: $most })?;
                        Ok(true)
                    })*
                    _ => Ok(false),
                }
            }

            /// The error for a value of that limit that is not a valid number; `None` if the
            /// name is unknown.
            pub fn out_of_bounds(name: &str) -> Option<LimitError> {
                match name {
                    $($name => Some(LimitError { name: $name, least: $least, most: $most }),)*
                    _ => None,
                }
            }

            /// Checks that all limits are within their bounds.
            ///
            /// # Errors
            ///
            /// The first limit that is out of bounds.
            pub fn check(&self) -> Result<(), LimitError> {
                let mut checked = *self;
                $(checked.set($name, self.$field as u64)?;)*
                Ok(())
            }
        }
    };
}

limits! {
    /// The limits of a GraphRAG search. The defaults are those of TrustGraph's service; the upper
    /// bounds keep a request within a few milliseconds and a few hundred kilobytes.
    GraphLimits {
        /// Entities of the question at which the search begins.
        entity_limit "entity-limit" 50 in 1..=1_000;
        /// Triples followed from one entity in one step.
        triple_limit "triple-limit" 30 in 1..=1_000;
        /// Triples of the subgraph. Published clients ask for 1,000.
        max_subgraph_size "max-subgraph-size" 150 in 1..=5_000;
        /// Steps from an entity of the question to the last triple.
        max_path_length "max-path-length" 2 in 1..=10;
        /// Best triples of the subgraph that are candidates for the answer.
        edge_score_limit "edge-score-limit" 30 in 1..=1_000;
        /// Triples that the answer is written from.
        edge_limit "edge-limit" 25 in 1..=500;
        /// Triples that are passed to the ranker; without a ranker it has no effect.
        max_reranker_input "max-reranker-input" 350 in 1..=2_000;
    }
}

limits! {
    /// The limits of a DocumentRAG search. The default of `doc_limit` is that of TrustGraph's
    /// service.
    DocumentLimits {
        /// Chunks that the answer is written from.
        doc_limit "doc-limit" 20 in 1..=200;
        /// Chunks that each search returns, raised to `doc_limit` if it is smaller. 0 lets the
        /// pipeline choose.
        fetch_limit "fetch-limit" 0 in 0..=1_000;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_bounds_and_names() {
        let mut limits = GraphLimits::default();
        assert_eq!(limits.check(), Ok(()));
        assert_eq!(limits.set("max-path-length", 3), Ok(true));
        assert_eq!(limits.max_path_length, 3);
        assert_eq!(limits.set("doc-limit", 3), Ok(false));
        for value in [0, 11, u64::MAX] {
            let error = limits.set("max-path-length", value).unwrap_err();
            assert_eq!(
                error.to_string(),
                "max-path-length must be a whole number from 1 to 10"
            );
        }
        assert_eq!(limits.max_path_length, 3, "an error changes nothing");
        limits.edge_limit = 0;
        assert_eq!(limits.check().unwrap_err().name, "edge-limit");
        let mut documents = DocumentLimits::default();
        assert_eq!(documents.set("fetch-limit", 0), Ok(true));
        assert!(documents.set("doc-limit", 0).is_err());
        assert_eq!(DocumentLimits::NAMES, ["doc-limit", "fetch-limit"]);
        let doc_limit = Limit {
            name: "doc-limit",
            description: "Chunks that the answer is written from.",
            default: 20,
            least: 1,
            most: 200,
        };
        assert_eq!(DocumentLimits::describe()[0], doc_limit);
    }
}
