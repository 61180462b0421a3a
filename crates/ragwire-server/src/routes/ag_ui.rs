//! `POST /ag-ui`: the route of an AG-UI agent, which `HttpAgent` calls.
//!
//! Where a turn asks a human, its run ends with an interrupt, and `resume` in the next one answers it. An interrupt's id is that of its turn,
//! `-`, and the question's `request_id`: a thread's id may be guessed, that of a turn may not.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::AgUi;
use ragwire::turn::{AnswerError, TurnId};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::answers::{self, Given, Verdict};
use super::messages::{self, Message};
use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use super::start::{self, Holds, Reader, invalid};
use crate::app::App;

/// Longest id of a thread or a run. They come back in every object of the stream, so that a long one would be sent a thousand
/// times; a UUID has 36 bytes.
const MAX_ID_BYTES: usize = 256;

/// `RunAgentInput`. State, tools and context are for agents that have some.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RunAgentInput)]
struct Run {
    #[schema(min_length = 1, max_length = 256)]
    thread_id: String,
    #[schema(min_length = 1, max_length = 256)]
    run_id: String,
    messages: Vec<Message>,
    /// What a human answered to the interrupts of the last run.
    #[serde(default)]
    resume: Option<Vec<Resume>>,
}

/// An answer to an interrupt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ResumeEntry)]
struct Resume {
    interrupt_id: String,
    status: ResumeStatus,
    /// The answer, as the interrupt's `responseSchema` describes it.
    #[serde(default)]
    payload: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ResumeStatus {
    /// `payload` is the answer.
    Resolved,
    /// Nobody answers: that is a no, where there is one, and stops the turn where there is none.
    Cancelled,
}

/// Which turn is answered, and what.
fn given(resume: Vec<Resume>) -> Result<(TurnId, Vec<Given>), Refusal> {
    let (mut turns, mut given) = (Vec::new(), Vec::new());
    for Resume {
        interrupt_id,
        status,
        payload,
    } in resume
    {
        let named = interrupt_id.split_once('-');
        let named = named.and_then(|(turn, request_id)| Some((TurnId::parse(turn)?, request_id.to_owned())));
        let Some((turn, request_id)) = named else {
            return Err(answers::refused(TurnId::random(), AnswerError::Unknown));
        };
        turns.push(turn);
        let answer = match status {
            ResumeStatus::Resolved => Verdict::Said(payload),
            ResumeStatus::Cancelled => Verdict::Abandoned,
        };
        given.push(Given { request_id, answer });
    }
    turns.dedup();
    match turns[..] {
        [turn] => Ok((turn, given)),
        _ => Err(invalid("`resume` answers the interrupts of one run.")),
    }
}

/// Runs the agent, or goes on with the run that asked what `resume` answers.
#[utoipa::path(
    post,
    path = "/ag-ui",
    tag = "ag-ui",
    operation_id = "agUi",
    request_body(content = Run, example = json!({
        "threadId": "thread-1",
        "runId": "run-1",
        "state": {},
        "messages": [{ "id": "m-1", "role": "user", "content": "What is the commit rule?" }],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    })),
    responses(
        (status = 200, description = "AG-UI's events", headers(("x-ragwire-turn" = String, description = "The turn, as the logs name it")),
            content((String = "text/event-stream", example = json!(example(&AgUi::new("thread-1", "run-1")))))),
        (status = 404, description = "No such turn has asked this", body = shapes::Refused),
        (status = 409, description = "The question has another answer", body = shapes::Refused),
        (status = 410, description = "Nobody waits for the answer any more", body = shapes::Refused),
        TurnRefusals,
    ),
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let run: Run = start::read_answers(&app, Holds::Conversation, request).await?;
    for (name, id) in [("threadId", &run.thread_id), ("runId", &run.run_id)] {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(invalid(format!("`{name}` has 1 to {MAX_ID_BYTES} bytes.")));
        }
    }
    let wire = AgUi::new(run.thread_id, run.run_id).parks();
    let wire = |turn: TurnId| wire.id_prefix(turn.to_string());
    let resume = run.resume.unwrap_or_default();
    let (turn, wire) = if resume.is_empty() {
        // `abortRun` closes the connection and says nothing else, and the protocol has no way back to a run.
        let turn = start::start(&app, &owner, Reader::Leaving, messages::asked(run.messages)?).await?;
        let wire = wire(turn.id());
        (turn, wire)
    } else {
        let (id, given) = given(resume)?;
        let wire = wire(id);
        (answers::go_on(&app, &owner, id, given, &wire).await?, wire)
    };
    Ok(turn.respond(wire).map(Body::new))
}
