//! Retrieval in the shape that chat clients draw: tool calls and their results.
//!
//! The frontends of most protocols show a tool call with its input and, later, its output; they do
//! not know `retrieval_start` or `crag_evaluation`. [`Activities`] turns those events into calls
//! and results, the same ones for every wire. A wire writes them in its own form, and the event
//! itself in the protocol's extension point.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use super::calls::MAX_OPEN_CALLS;
use crate::event::Event;

/// The tool that a search is shown as.
pub(super) const SEARCH: &str = "search_documents";
/// The tool that the quality gate is shown as.
pub(super) const GRADE: &str = "grade_documents";
/// The tool that reranking is shown as.
pub(super) const RERANK: &str = "rerank_documents";
/// The tool that the check of the finished answer is shown as.
pub(super) const VERIFY: &str = "verify_answer";
/// The tool that a review of the evidence or of a draft is shown as.
pub(super) const REVIEW: &str = "review_answer";

/// What a client that draws tools shows of a retrieval event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Activity {
    /// A tool is called.
    Call {
        /// Unique within the turn: `retrieval-1`, `retrieval-2`, …
        id: String,
        tool: &'static str,
        input: Value,
    },
    /// The call with this ID returned.
    Result {
        id: String,
        tool: &'static str,
        output: Value,
    },
}

/// Returns `true` for the name of an event that [`Activities`] shows as a call or a result.
///
/// A wire marks such calls and results with the event's name, because the event itself is in the
/// protocol's extension point too: a decoder skips what is marked so and reads the event.
pub(super) fn is_shown(name: &str) -> bool {
    [
        "search",
        "retrieval_start",
        "retrieval_result",
        "crag_evaluation",
        "rerank_result",
        "verification",
        "review",
    ]
    .contains(&name)
}

/// The retrieval of one turn as tool calls. Calls and results alternate by ID: each call gets
/// exactly one result, if the wire writes what [`close`](Self::close) returns before the answer's
/// text and before the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Activities {
    /// Searches without a result, oldest first. At most [`MAX_OPEN_CALLS`].
    open: VecDeque<OpenSearch>,
    /// Number of calls so far.
    calls: u64,
}

#[derive(Clone, Debug)]
struct OpenSearch {
    id: String,
    tool: String,
    query: String,
    /// Whether only `search` has announced it. The `retrieval_start` that follows belongs to the
    /// same call.
    is_announced: bool,
}

impl Activities {
    /// Returns what `event` means to a client that draws tools, in the order in which to write it.
    /// Empty for events that are not retrieval, and for those that only repeat an open call.
    pub(super) fn of(&mut self, event: &Event) -> Vec<Activity> {
        match event {
            Event::Search(search) => {
                let mut input = Map::new();
                let query = search.query.clone().unwrap_or_default();
                input.insert("query".to_owned(), json!(query));
                input.insert("tool".to_owned(), json!(search.tool));
                if let Some(page) = search.page {
                    input.insert("page".to_owned(), json!(page));
                }
                self.call(&search.tool, query, true, input)
            }
            Event::RetrievalStart(start) => {
                let announced = self
                    .open
                    .iter_mut()
                    .find(|open| open.is_announced && open.tool == start.tool && open.query == start.query);
                if let Some(announced) = announced {
                    announced.is_announced = false;
                    return Vec::new();
                }
                let mut input = Map::new();
                input.insert("query".to_owned(), json!(start.query));
                input.insert("tool".to_owned(), json!(start.tool));
                self.call(&start.tool, start.query.clone(), false, input)
            }
            Event::RetrievalResult(result) => {
                let output = members(event);
                match self.open.iter().position(|open| open.tool == result.tool) {
                    Some(at) => self.result(at, output).into_iter().collect(),
                    None => self.pair(SEARCH, json!({"tool": result.tool}), output),
                }
            }
            Event::CragEvaluation(graded) => {
                let judged = [graded.correct, graded.ambiguous, graded.incorrect];
                let passages = judged.into_iter().fold(0_u32, u32::saturating_add);
                self.pair(GRADE, json!({"passages": passages}), members(event))
            }
            Event::RerankResult(ranked) => {
                let input = json!({"method": ranked.method, "passages": ranked.input_count});
                self.pair(RERANK, input, members(event))
            }
            Event::Verification(checked) => {
                self.pair(VERIFY, json!({"claims": checked.claims_checked}), members(event))
            }
            Event::Review(review) => {
                self.pair(REVIEW, json!({"iteration": review.iteration}), members(event))
            }
            Event::Reasoning(_)
            | Event::QueryAnalysis(_)
            | Event::CacheHit(_)
            | Event::CacheMiss(_)
            | Event::ToolCall(_)
            | Event::ToolResult(_)
            | Event::GenerationStart(_)
            | Event::RoundStart(_)
            | Event::Generating(_)
            | Event::Thinking(_)
            | Event::Retract(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => Vec::new(),
        }
    }

    /// Returns the results of the calls that are still open, with an empty output. An orchestrator
    /// that emits only `search` never reports a result; to a client its call would run for ever.
    pub(super) fn close(&mut self) -> Vec<Activity> {
        let mut results = Vec::new();
        while let Some(result) = self.result(0, json!({})) {
            results.push(result);
        }
        results
    }

    fn call(
        &mut self,
        tool: &str,
        query: String,
        is_announced: bool,
        input: Map<String, Value>,
    ) -> Vec<Activity> {
        let excess = if self.open.len() >= MAX_OPEN_CALLS {
            self.result(0, json!({}))
        } else {
            None
        };
        let id = self.next_id();
        self.open.push_back(OpenSearch {
            id: id.clone(),
            tool: tool.to_owned(),
            query,
            is_announced,
        });
        let call = Activity::Call {
            id,
            tool: SEARCH,
            input: Value::Object(input),
        };
        excess.into_iter().chain([call]).collect()
    }

    /// Closes the open search at this index.
    fn result(&mut self, at: usize, output: Value) -> Option<Activity> {
        let OpenSearch { id, .. } = self.open.remove(at)?;
        Some(Activity::Result {
            id,
            tool: SEARCH,
            output,
        })
    }

    /// A step that is reported only when it is over.
    fn pair(&mut self, tool: &'static str, input: Value, output: Value) -> Vec<Activity> {
        let id = self.next_id();
        let call = Activity::Call {
            id: id.clone(),
            tool,
            input,
        };
        vec![call, Activity::Result { id, tool, output }]
    }

    fn next_id(&mut self) -> String {
        self.calls += 1;
        format!("retrieval-{}", self.calls)
    }
}

/// Returns `true` if the ID and the tool of a call are those that [`Activities`] gives, alone or
/// after a prefix. A decoder skips such a call and its result: the stream also has the event itself.
pub(super) fn is_activity(id: &str, tool: &str) -> bool {
    let number = id.rsplit_once("retrieval-").map(|(_, number)| number);
    [SEARCH, GRADE, RERANK, VERIFY, REVIEW].contains(&tool)
        && number
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The members of an event without its name.
fn members(event: &Event) -> Value {
    let mut members = serde_json::to_value(event).unwrap_or_default();
    if let Some(members) = members.as_object_mut() {
        members.shift_remove("event");
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{RerankResult, RetrievalResult, RetrievalStart, Search};

    fn call(id: &str, tool: &'static str, input: Value) -> Activity {
        let id = id.to_owned();
        Activity::Call { id, tool, input }
    }

    fn result(id: &str, tool: &'static str, output: Value) -> Activity {
        let id = id.to_owned();
        Activity::Result { id, tool, output }
    }

    #[test]
    fn a_search_is_one_call_with_one_result() {
        let mut activities = Activities::default();
        let events: [Event; 6] = [
            Search::new("bm25").query("a").page(1_u32).into(),
            RetrievalStart::new("bm25", "a", 1_u32).into(),
            RetrievalStart::new("dense", "b", 1_u32).into(),
            RetrievalResult::new("bm25", 3_u32, 7_u64).into(),
            RetrievalResult::new("dense", 1_u32, 2_u64).into(),
            RerankResult::new("rrf", 4_u32, 2_u32, 1_u64).into(),
        ];
        let shown: Vec<Activity> = events.iter().flat_map(|event| activities.of(event)).collect();
        let expected = [
            call(
                "retrieval-1",
                SEARCH,
                json!({"query": "a", "tool": "bm25", "page": 1}),
            ),
            call("retrieval-2", SEARCH, json!({"query": "b", "tool": "dense"})),
            result(
                "retrieval-1",
                SEARCH,
                json!({"tool": "bm25", "chunks_found": 3, "duration_ms": 7}),
            ),
            result(
                "retrieval-2",
                SEARCH,
                json!({"tool": "dense", "chunks_found": 1, "duration_ms": 2}),
            ),
            call("retrieval-3", RERANK, json!({"method": "rrf", "passages": 4})),
            result(
                "retrieval-3",
                RERANK,
                json!({"method": "rrf", "input_count": 4, "output_count": 2, "duration_ms": 1}),
            ),
        ];
        assert_eq!(shown, expected);
        assert_eq!(activities.close(), []);
    }

    #[test]
    fn a_search_without_a_result_is_closed() {
        let mut activities = Activities::default();
        let calls: usize = (0..=MAX_OPEN_CALLS)
            .map(|number| {
                let event = Event::from(Search::new("bm25").query(number.to_string()));
                activities.of(&event).len()
            })
            .sum();
        // The one over the limit closed the first.
        assert_eq!(calls, MAX_OPEN_CALLS + 2);
        let closed = activities.close();
        assert_eq!(closed.len(), MAX_OPEN_CALLS);
        assert_eq!(closed[0], result("retrieval-2", SEARCH, json!({})));
    }
}
