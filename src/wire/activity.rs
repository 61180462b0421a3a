//! Retrieval in the shape that chat clients draw: tool calls and their results.
//!
//! The frontends of most protocols show a tool call with its input and, later, its output; they do
//! not know `retrieval_start` or `crag_evaluation`. [`Activities`] turns those events into calls
//! and results, the same ones for every wire. A wire writes them in its own form, and the event
//! itself in the protocol's extension point.

use std::collections::VecDeque;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::calls::MAX_OPEN_CALLS;
use crate::event::{Event, Search};

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

/// What a client that draws tools shows of a retrieval event. What a call and its result contain is
/// borrowed from the event, so that a wire writes it without building a JSON value first.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Activity<'a> {
    /// A tool is called.
    Call {
        /// Unique within the turn: `retrieval-1`, `retrieval-2`, …
        id: String,
        tool: &'static str,
        input: Input<'a>,
    },
    /// The call with this ID returned.
    Result {
        id: String,
        tool: &'static str,
        output: Output<'a>,
    },
}

/// The input of a call, an object.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    Search {
        query: &'a str,
        tool: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        page: Option<u32>,
    },
    /// A search that was not announced.
    Tool {
        tool: &'a str,
    },
    Grade {
        passages: u32,
    },
    Rerank {
        method: &'a str,
        passages: u32,
    },
    Verify {
        claims: u32,
    },
    Review {
        iteration: u32,
    },
}

impl<'a> Input<'a> {
    /// Returns what is searched for; empty for any other step.
    pub(super) fn query(self) -> &'a str {
        match self {
            Self::Search { query, .. } => query,
            Self::Tool { .. }
            | Self::Grade { .. }
            | Self::Rerank { .. }
            | Self::Verify { .. }
            | Self::Review { .. } => "",
        }
    }
}

/// The output of a call, an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Output<'a> {
    /// The members of an event without its name.
    Members(&'a Event),
    /// Nothing was reported.
    Nothing,
}

impl Serialize for Output<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Members(event) => event.serialize_members(serializer),
            Self::Nothing => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

/// Returns an input or an output as JSON in a string.
pub(super) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl From<Input<'_>> for Value {
    fn from(input: Input<'_>) -> Self {
        serde_json::to_value(input).unwrap_or_default()
    }
}

impl From<Output<'_>> for Value {
    fn from(output: Output<'_>) -> Self {
        serde_json::to_value(output).unwrap_or_default()
    }
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
    pub(super) fn of<'a>(&mut self, event: &'a Event) -> Vec<Activity<'a>> {
        match event {
            Event::Search(Search {
                tool, query, page, ..
            }) => {
                let query = query.as_deref().unwrap_or_default();
                self.call(query, tool, *page, true)
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
                self.call(&start.query, &start.tool, None, false)
            }
            Event::RetrievalResult(result) => {
                match self.open.iter().position(|open| open.tool == result.tool) {
                    Some(at) => self.result(at, Output::Members(event)).into_iter().collect(),
                    None => self.pair(SEARCH, Input::Tool { tool: &result.tool }, event),
                }
            }
            Event::CragEvaluation(graded) => {
                let judged = [graded.correct, graded.ambiguous, graded.incorrect];
                let passages = judged.into_iter().fold(0_u32, u32::saturating_add);
                self.pair(GRADE, Input::Grade { passages }, event)
            }
            Event::RerankResult(ranked) => {
                let input = Input::Rerank {
                    method: &ranked.method,
                    passages: ranked.input_count,
                };
                self.pair(RERANK, input, event)
            }
            Event::Verification(checked) => {
                let claims = checked.claims_checked;
                self.pair(VERIFY, Input::Verify { claims }, event)
            }
            Event::Review(review) => {
                let iteration = review.iteration;
                self.pair(REVIEW, Input::Review { iteration }, event)
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
    pub(super) fn close(&mut self) -> Vec<Activity<'static>> {
        let mut results = Vec::new();
        while let Some(result) = self.result(0, Output::Nothing) {
            results.push(result);
        }
        results
    }

    fn call<'a>(
        &mut self,
        query: &'a str,
        tool: &'a str,
        page: Option<u32>,
        is_announced: bool,
    ) -> Vec<Activity<'a>> {
        let excess = if self.open.len() >= MAX_OPEN_CALLS {
            self.result(0, Output::Nothing)
        } else {
            None
        };
        let id = self.next_id();
        self.open.push_back(OpenSearch {
            id: id.clone(),
            tool: tool.to_owned(),
            query: query.to_owned(),
            is_announced,
        });
        let call = Activity::Call {
            id,
            tool: SEARCH,
            input: Input::Search { query, tool, page },
        };
        excess.into_iter().chain([call]).collect()
    }

    /// Closes the open search at this index.
    fn result<'a>(&mut self, at: usize, output: Output<'a>) -> Option<Activity<'a>> {
        let OpenSearch { id, .. } = self.open.remove(at)?;
        Some(Activity::Result {
            id,
            tool: SEARCH,
            output,
        })
    }

    /// A step that is reported only when it is over.
    fn pair<'a>(&mut self, tool: &'static str, input: Input<'a>, event: &'a Event) -> Vec<Activity<'a>> {
        let id = self.next_id();
        let call = Activity::Call {
            id: id.clone(),
            tool,
            input,
        };
        let output = Output::Members(event);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{RerankResult, RetrievalResult, RetrievalStart};

    /// A call or a result as wires write it.
    type Shown = (String, &'static str, Value);

    fn call(id: &str, tool: &'static str, input: Value) -> Shown {
        (format!("call {id}"), tool, input)
    }

    fn result(id: &str, tool: &'static str, output: Value) -> Shown {
        (format!("result {id}"), tool, output)
    }

    fn shown(activity: Activity<'_>) -> Shown {
        match activity {
            Activity::Call { id, tool, input } => call(&id, tool, input.into()),
            Activity::Result { id, tool, output } => result(&id, tool, output.into()),
        }
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
        let activities_of = |event| activities.of(event).into_iter().map(shown);
        let shown: Vec<Shown> = events.iter().flat_map(activities_of).collect();
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
        assert_eq!(shown(closed[0].clone()), result("retrieval-2", SEARCH, json!({})));
    }

    #[test]
    fn a_retrieval_that_no_search_announced_is_a_call_of_its_own() {
        for (start, calls) in [
            (RetrievalStart::new("bm25", "a", 1_u32), 0),
            (RetrievalStart::new("dense", "a", 1_u32), 1),
            (RetrievalStart::new("bm25", "b", 1_u32), 1),
        ] {
            let mut activities = Activities::default();
            activities.of(&Search::new("bm25").query("a").into());
            assert_eq!(activities.of(&start.clone().into()).len(), calls);
            // The next retrieval repeats nothing: the search has begun.
            assert_eq!(activities.of(&start.into()).len(), 1);
        }
    }

    #[test]
    fn a_call_is_an_activity_by_its_tool_and_its_number() {
        for (id, tool, is) in [
            ("retrieval-1", SEARCH, true),
            ("run-1-retrieval-12", GRADE, true),
            ("retrieval-1", "pay", false),
            ("call-1", SEARCH, false),
            ("retrieval-", SEARCH, false),
            ("retrieval-x", SEARCH, false),
            ("retrieval-1x", SEARCH, false),
        ] {
            assert_eq!(is_activity(id, tool), is, "{id} {tool}");
        }
    }
}
