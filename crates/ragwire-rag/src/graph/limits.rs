//! How far a search may go: the limits of TrustGraph's requests, under their names, with its service's defaults.
//!
//! Every limit is at least its least value and at most one that a server can bear for a stranger's request. It knows no JSON.

/// A limit that is out of its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be a whole number from {least} to {most}")]
#[non_exhaustive]
pub struct LimitError {
    /// TrustGraph's name of it.
    pub name: &'static str,
    /// The smallest that is taken.
    pub least: usize,
    /// The largest.
    pub most: usize,
}

impl LimitError {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        "bad_limit"
    }
}

macro_rules! limits {
    ($(#[$meta:meta])* $Limits:ident { $($(#[doc = $doc:literal])+ $field:ident $name:literal $default:literal in $least:literal..=$most:literal;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $Limits {
            $($(#[doc = $doc])+ pub $field: usize,)*
        }

        impl Default for $Limits {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $Limits {
            /// TrustGraph's names of all of them.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Sets the limit of that name; false where there is none.
            ///
            /// # Errors
            /// The value is out of bounds, and nothing is changed.
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

            /// What is said of a value of that name that is none of its numbers; nothing where there is no such limit.
            pub fn out_of_bounds(name: &str) -> Option<LimitError> {
                match name {
                    $($name => Some(LimitError { name: $name, least: $least, most: $most }),)*
                    _ => None,
                }
            }

            /// Whether all of them are within their bounds.
            ///
            /// # Errors
            /// The first that is not.
            pub fn check(&self) -> Result<(), LimitError> {
                let mut checked = *self;
                $(checked.set($name, self.$field as u64)?;)*
                Ok(())
            }
        }
    };
}

limits! {
    /// How far GraphRAG may go. The defaults are those of TrustGraph's service; the upper bounds are ours: a request stays below some
    /// milliseconds and some hundred kilobytes.
    GraphLimits {
        /// Entities of the question that the search begins at.
        entity_limit "entity-limit" 50 in 1..=1_000;
        /// Triples followed from one entity.
        triple_limit "triple-limit" 30 in 1..=1_000;
        /// Triples of the subgraph. Published clients ask for 1,000.
        max_subgraph_size "max-subgraph-size" 150 in 1..=5_000;
        /// Steps from an entity of the question to the last triple.
        max_path_length "max-path-length" 2 in 1..=10;
        /// Triples of the subgraph, best first, that are looked at closely.
        edge_score_limit "edge-score-limit" 30 in 1..=1_000;
        /// Triples that the answer is written from.
        edge_limit "edge-limit" 25 in 1..=500;
        /// Triples that a ranker is given; without one it means nothing.
        max_reranker_input "max-reranker-input" 350 in 1..=2_000;
    }
}

limits! {
    /// How much DocumentRAG takes. The default is that of TrustGraph's service; the bounds are ours.
    DocumentLimits {
        /// Chunks that the answer is written from.
        doc_limit "doc-limit" 20 in 1..=200;
        /// Chunks that each search brings; fewer than the limit above mean as many as it needs, and 0 leaves it to us.
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
    }
}
