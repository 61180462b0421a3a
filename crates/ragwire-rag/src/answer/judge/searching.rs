//! What a judge knows of a search that it plans, and the step that it chooses.

use crate::Hit;

/// A tool that an agent may search with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ToolSpec {
    /// The tool's name in events. Must not be `stop`.
    pub name: String,
    /// What the tool is for, in one sentence.
    pub description: String,
    /// Whether the tool finds how things are related rather than passages that resemble a query.
    pub relates: bool,
}

impl ToolSpec {
    /// The tool `name`.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            relates: false,
        }
    }

    /// Marks the tool as one that finds relations: the lexical judge chooses it once for questions
    /// that relate things ([`relates`](super::lexical::relates)), and never for others.
    #[must_use]
    pub fn relating(mut self) -> Self {
        self.relates = true;
        self
    }
}

/// What a model writes instead of a tool's name to end the search.
pub(super) const STOP: &str = "stop";

/// A search that an agent made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SearchRecord {
    /// The tool's name.
    pub tool: String,
    /// The query.
    pub query: String,
    /// Number of chunks in the result that no earlier search had found.
    pub new_chunks: u32,
}

impl SearchRecord {
    /// `tool` found `new_chunks` for `query`.
    pub fn new(tool: impl Into<String>, query: impl Into<String>, new_chunks: u32) -> Self {
        Self {
            tool: tool.into(),
            query: query.into(),
            new_chunks,
        }
    }
}

/// The state of an agent's search.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The question.
    pub question: &'a str,
    /// The tools that may be used, most useful first. The lexical judge tries them in this order,
    /// except those that relate things.
    pub tools: &'a [ToolSpec],
    /// The searches so far, in order.
    pub searched: &'a [SearchRecord],
    /// The hits so far, best first.
    pub found: &'a [Hit],
    /// How many more searches are allowed.
    pub steps_left: u32,
}

impl<'a> Progress<'a> {
    /// The state before the first search.
    pub fn new(question: &'a str, tools: &'a [ToolSpec], steps_left: u32) -> Self {
        Self {
            question,
            tools,
            searched: &[],
            found: &[],
            steps_left,
        }
    }

    /// The state after these searches, with these hits, best first.
    #[must_use]
    pub fn after(mut self, searched: &'a [SearchRecord], found: &'a [Hit]) -> Self {
        (self.searched, self.found) = (searched, found);
        self
    }

    /// Returns `true` if this search was made before, whatever the case of the query.
    pub(super) fn has_searched(&self, tool: &str, query: &str) -> bool {
        let same =
            |done: &SearchRecord| done.tool == tool && done.query.to_lowercase() == query.to_lowercase();
        self.searched.iter().any(same)
    }
}

/// An agent's next step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NextStep {
    /// Search with one of the offered tools, for something that this tool has not searched for.
    Search {
        /// The tool's name.
        tool: String,
        /// The query, at most 400 bytes.
        query: String,
    },
    /// Stop: the evidence is sufficient, or more searches will not help.
    Stop,
}
