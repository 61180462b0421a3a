//! `POST /ag-ui`: the route of an AG-UI agent, which `HttpAgent` calls.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::AgUi;
use serde::Deserialize;
use utoipa::ToSchema;

use super::messages::{self, Message};
use super::openapi::{TurnRefusals, example};
use super::owner::Owner;
use super::refusal::Refusal;
use super::turn::{self, Holds, Reader, invalid};
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
}

/// Runs the agent.
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
        TurnRefusals,
    ),
)]
pub(super) async fn run(
    State(app): State<Arc<App>>,
    owner: Owner,
    request: Request,
) -> Result<Response, Refusal> {
    let run: Run = turn::read(&app, Holds::Conversation, request).await?;
    for (name, id) in [("threadId", &run.thread_id), ("runId", &run.run_id)] {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(invalid(format!("`{name}` has 1 to {MAX_ID_BYTES} bytes.")));
        }
    }
    // `abortRun` closes the connection and says nothing else, and the protocol has no way back to a run.
    let turn = turn::start(&app, &owner, Reader::Leaving, messages::asked(run.messages)?).await?;
    let wire = AgUi::new(run.thread_id, run.run_id);
    Ok(turn.respond(wire).map(Body::new))
}
