//! What a starting server does, and how far it is, for `/readyz`, `/healthz` and the page.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use utoipa::ToSchema;

use crate::dependencies::Checks;

/// A step of the start, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// The library and the sessions are opened.
    #[default]
    Opening,
    /// Models are downloaded, loaded or reached, and the store is opened.
    Models,
    /// Files become documents; `total` is 0 until the files are counted.
    Reading {
        /// Files that have been read.
        done: usize,
        /// All files.
        total: usize,
    },
    /// Passages are added to the store; `total` is 0 until they are counted.
    Indexing {
        /// Passages that have been added.
        done: usize,
        /// All passages.
        total: usize,
    },
    /// Documents are added to the graph.
    Graph,
    /// The start has finished.
    Ready,
}

impl Stage {
    /// Returns the name for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Models => "models",
            Self::Reading { .. } => "reading",
            Self::Indexing { .. } => "indexing",
            Self::Graph => "graph",
            Self::Ready => "ready",
        }
    }

    fn counts(self) -> Option<(usize, usize)> {
        match self {
            Self::Reading { done, total } | Self::Indexing { done, total } => Some((done, total)),
            Self::Opening | Self::Models | Self::Graph | Self::Ready => None,
        }
    }
}

/// The line for users, without a full stop: `Reading documents: 120 of 3,022`.
impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "Opening the library",
            Self::Models => "Starting the models",
            Self::Reading { .. } => "Reading documents",
            Self::Indexing { .. } => "Indexing passages",
            Self::Graph => "Adding documents to the graph",
            Self::Ready => "Ready",
        })?;
        match self.counts() {
            Some((done, total)) if total > 0 => write!(f, ": {} of {}", grouped(done), grouped(total)),
            _ => Ok(()),
        }
    }
}

/// Writes a number with a comma between groups of three digits.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// The stage of a server. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Stage>>);

impl Readiness {
    /// Creates the state of a server that has just started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the state of a server that has nothing to prepare.
    pub fn ready() -> Self {
        let readiness = Self::default();
        readiness.set(Stage::Ready);
        readiness
    }

    /// Enters a stage, or reports its progress.
    pub fn set(&self, stage: Stage) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// Returns the current stage.
    pub fn stage(&self) -> Stage {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the start has finished.
    pub fn is_ready(&self) -> bool {
        self.stage() == Stage::Ready
    }

    /// Returns the state as `/readyz` reports it.
    pub fn report(&self, is_shutting_down: bool) -> Report {
        let stage = self.stage();
        let status = match stage {
            _ if is_shutting_down => "shutting_down",
            Stage::Ready => "ready",
            Stage::Opening
            | Stage::Models
            | Stage::Reading { .. }
            | Stage::Indexing { .. }
            | Stage::Graph => "starting",
        };
        let counts = stage.counts();
        Report {
            status,
            stage: stage.name(),
            done: counts.map(|(done, _)| done),
            total: counts.map(|(_, total)| total),
            message: if is_shutting_down {
                "Shutting down".to_owned()
            } else {
                stage.to_string()
            },
            checks: Checks::new(),
        }
    }
}

/// The state of the start.
#[derive(Debug, Serialize, ToSchema)]
pub struct Report {
    /// `starting`, `ready`, `unavailable` (questions fail) or `shutting_down`.
    pub status: &'static str,
    /// `opening`, `models`, `reading`, `indexing`, `graph` or `ready`.
    stage: &'static str,
    /// Files or passages that are done, while some are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    done: Option<usize>,
    /// All files or passages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    total: Option<usize>,
    /// The same as a line for users.
    pub message: String,
    /// `disk` is `ok` or `full`. `redis`, `store`, `orchestrator`, `model`, `embedder` and `reranker`,
    /// where there is one, are `ok` or `unreachable`. Not reported during the start.
    #[serde(skip_serializing_if = "Checks::is_empty")]
    #[schema(required = false, value_type = std::collections::BTreeMap<String, String>)]
    pub checks: Checks,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_says_what_is_being_done_and_how_far() {
        for (stage, line) in [
            (Stage::Opening, "Opening the library"),
            (Stage::Reading { done: 0, total: 0 }, "Reading documents"),
            (
                Stage::Reading {
                    done: 120,
                    total: 3022,
                },
                "Reading documents: 120 of 3,022",
            ),
            (
                Stage::Indexing {
                    done: 999,
                    total: 1_234_567,
                },
                "Indexing passages: 999 of 1,234,567",
            ),
            (Stage::Ready, "Ready"),
        ] {
            assert_eq!(stage.to_string(), line);
        }
    }

    #[test]
    fn a_server_that_shuts_down_is_not_ready() {
        let readiness = Readiness::ready();
        assert_eq!(readiness.report(false).status, "ready");
        assert_eq!(readiness.report(true).status, "shutting_down");
        readiness.set(Stage::Graph);
        assert!(!readiness.is_ready());
        assert_eq!(readiness.report(false).status, "starting");
    }
}
