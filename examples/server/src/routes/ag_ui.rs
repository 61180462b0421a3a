//! `POST /ag-ui`: the route of an AG-UI agent, which `HttpAgent` calls.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use ragwire::AgUi;
use serde::Deserialize;

use super::messages::{self, Message};
use super::refusal::Refusal;
use super::turn::{self, Holds, invalid};
use crate::app::App;

/// Longest id of a thread or a run. They come back in every object of the stream, so that a long one would be sent a thousand
/// times; a UUID has 36 bytes.
const MAX_ID_BYTES: usize = 256;

/// `RunAgentInput`. State, tools and context are for agents that have some.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    thread_id: String,
    run_id: String,
    messages: Vec<Message>,
}

/// `POST /ag-ui`
pub(super) async fn run(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let run: Run = turn::read(&app, Holds::Conversation, request).await?;
    for (name, id) in [("threadId", &run.thread_id), ("runId", &run.run_id)] {
        if id.is_empty() || id.len() > MAX_ID_BYTES {
            return Err(invalid(format!("`{name}` has 1 to {MAX_ID_BYTES} bytes.")));
        }
    }
    let turn = turn::start(&app, messages::asked(run.messages)?).await?;
    let wire = AgUi::new(run.thread_id, run.run_id);
    Ok(turn.respond(wire).map(Body::new))
}
