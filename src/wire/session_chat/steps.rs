//! What the session chat shows of a turn's steps: rounds, tools and whole thoughts.
//!
//! The readers of this wire know seven types. An orchestrator that reports its retrieval in other
//! events gets the rounds, the generation and the tools derived from them.

use crate::event::{Event, Generating, RoundStart, Search, Thinking, ToolCall, ToolResult};
use crate::failure::Failure;
use crate::time::Timestamp;
use crate::wire::Limits;
use crate::wire::activity::{Activities, Activity};

/// The progress of a turn. It is restored if an event does not fit.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// The round of the last `round_start`.
    pub(super) round: u32,
    pub(super) max_rounds: u32,
    /// The largest round so far.
    pub(super) rounds_used: u32,
    /// The last timestamp.
    pub(super) timestamp: Option<Timestamp>,
    /// The last round that has begun; 0 before the first.
    begun: u32,
    /// Whether the orchestrator reports its own rounds and its own generation.
    reports_rounds: bool,
    reports_generating: bool,
    /// The pieces of a thought that may continue: this wire sends whole thoughts.
    thought: Option<Thinking>,
    activities: Activities,
    /// Whether each `search` is followed by its `retrieval_start`, which has the round.
    starts_follow: bool,
    /// A search whose `retrieval_start` comes next.
    announced: Option<Search>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            round: 1,
            max_rounds: 1,
            rounds_used: 1,
            timestamp: None,
            begun: 0,
            reports_rounds: false,
            reports_generating: false,
            thought: None,
            activities: Activities::default(),
            starts_follow: false,
            announced: None,
        }
    }
}

/// What a thought needs beside its content: names, numbers and the timestamp.
const AROUND_THOUGHT_BYTES: usize = 1024;

/// Returns `true` if this thought is certain to fit in a line: escaping makes at most six bytes of
/// one.
fn fits(content: usize, thought: &Thinking, limits: Limits) -> bool {
    let id = thought.id.as_ref().map_or(0, String::len);
    content.saturating_add(id).saturating_mul(6) + AROUND_THOUGHT_BYTES <= limits.max_line_bytes
}

impl Progress {
    /// Adds a further piece to the thought that is kept. Returns `false` if `event` is not one, or
    /// if the thought would become too long for a line.
    pub(super) fn continue_thought(&mut self, event: &Event, limits: Limits) -> bool {
        let (Event::Thinking(piece), Some(thought)) = (event, &mut self.thought) else {
            return false;
        };
        let continues = thought.id == piece.id
            && thought.round == piece.round
            && fits(thought.content.len() + piece.content.len(), thought, limits);
        if continues {
            thought.content.push_str(&piece.content);
        }
        continues
    }

    /// Returns the events to write for `event`, in order: what it completes, what it means to the
    /// readers of this wire, and itself. A thought that may continue is kept instead.
    pub(super) fn steps(&mut self, event: &Event, limits: Limits) -> Vec<Event> {
        let mut steps = Vec::new();
        self.end_thought(&mut steps);
        let announced = self.announced.take();
        let repeats = |search: &Search| {
            matches!(
                event,
                Event::RetrievalStart(start)
                    if start.tool == search.tool && search.query.as_ref() == Some(&start.query)
            )
        };
        if let Some(search) = announced.filter(|search| !repeats(search)) {
            self.retrieve(&search.into(), &mut steps);
        }
        match event {
            Event::Thinking(thought)
                if thought.id.is_some() && fits(thought.content.len(), thought, limits) =>
            {
                self.thought = Some(thought.clone());
                return steps;
            }
            Event::Search(search) if self.starts_follow => self.announced = Some(search.clone()),
            Event::Search(_) => {
                self.begin_round(1, &mut steps);
                self.retrieve(event, &mut steps);
            }
            Event::RetrievalStart(start) => {
                self.begin_round(start.iteration.max(1), &mut steps);
                self.starts_follow |= !self.retrieve(event, &mut steps);
            }
            Event::GenerationStart(_) => {
                self.begin_round(1, &mut steps);
                if !self.reports_generating {
                    let round = self.round.max(self.begun);
                    steps.push(Generating::new(round, self.max_rounds.max(round)).into());
                }
            }
            Event::RoundStart(start) => {
                self.reports_rounds = true;
                self.begun = self.begun.max(start.round);
            }
            Event::Generating(_) => self.reports_generating = true,
            Event::Reasoning(_)
            | Event::Review(_)
            | Event::QueryAnalysis(_)
            | Event::CacheHit(_)
            | Event::CacheMiss(_)
            | Event::RetrievalResult(_)
            | Event::ToolCall(_)
            | Event::ToolResult(_)
            | Event::CragEvaluation(_)
            | Event::RerankResult(_)
            | Event::Thinking(_)
            | Event::Retract(_)
            | Event::Verification(_)
            | Event::Sources(_)
            | Event::Queued(_)
            | Event::InputRequested(_)
            | Event::InputResolved(_)
            | Event::AuthorizationRequired(_)
            | Event::AuthorizationCompleted(_)
            | Event::StructuredResult(_)
            | Event::GraphExplanation(_)
            | Event::Custom(_) => {
                self.retrieve(event, &mut steps);
            }
        }
        steps.push(event.clone());
        steps
    }

    /// Returns the events to write before the answer's text and before the end: nothing may stay
    /// open. Tools that are still open have failed if there is a failure.
    pub(super) fn close(&mut self, failure: Option<&Failure>) -> Vec<Event> {
        let mut steps = Vec::new();
        self.end_thought(&mut steps);
        if let Some(search) = self.announced.take() {
            self.retrieve(&search.into(), &mut steps);
        }
        let open = self.activities.close();
        steps.extend(open.into_iter().map(|activity| tool(activity, failure)));
        steps
    }

    fn end_thought(&mut self, steps: &mut Vec<Event>) {
        steps.extend(self.thought.take().map(Event::from));
    }

    /// Begins a round, unless the orchestrator reports its own or a later one has begun.
    fn begin_round(&mut self, round: u32, steps: &mut Vec<Event>) {
        if !self.reports_rounds && round > self.begun {
            self.begun = round;
            // The protocol requires a maximum, and none is known: it is at least this round.
            steps.push(RoundStart::new(round, self.max_rounds.max(round)).into());
        }
    }

    /// Adds what `event` means as tools. Returns `true` if that is anything.
    fn retrieve(&mut self, event: &Event, steps: &mut Vec<Event>) -> bool {
        let activities = self.activities.of(event);
        let any = !activities.is_empty();
        steps.extend(activities.into_iter().map(|activity| tool(activity, None)));
        any
    }
}

fn tool(activity: Activity<'_>, failure: Option<&Failure>) -> Event {
    match (activity, failure) {
        (Activity::Call { id, tool, input }, _) => ToolCall::new(tool, input).call_id(id).into(),
        (Activity::Result { id, tool, output }, None) => ToolResult::new(tool, output).call_id(id).into(),
        (Activity::Result { id, tool, .. }, Some(failure)) => {
            let error = serde_json::json!({"code": failure.kind, "message": failure.message});
            ToolResult::new(tool, error).call_id(id).is_error(true).into()
        }
    }
}
