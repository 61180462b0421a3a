//! `/v1/turns/{turn_id}/stream` resumes a turn, `…/stop` stops it.
//!
//! A disconnect does not stop a turn. [`Reader`](super::start::Reader) defines what a turn does
//! without a reader.

use axum::Json;
use axum::response::Response;
use http::HeaderMap;
use ragwire::http::negotiate;
use ragwire::{Framed, Ndjson, Sse};
use serde::Serialize;
use utoipa::ToSchema;

use crate::caller::{self, Caller};
use crate::openapi::example;
use crate::openapi::schemas;
use crate::refusal::Refusal;
use crate::request::{Params, PathParam, turn_id};
use crate::turns::cursor::cursor;
use crate::turns::wires::wires;

/// Resumes a turn from any frame, live until its end.
///
/// Each reader may choose another wire, and a turn has any number of readers. 204 means that
/// nothing is left to read; an `EventSource` then stops reconnecting.
#[utoipa::path(
    get,
    path = "/v1/turns/{turn_id}/stream",
    tag = "questions",
    operation_id = "turnStream",
    params(
        ("turn_id" = String, Path, description = "The turn's id, from `x-ragwire-turn`"),
        ("from" = Option<u64>, Query, description = "The index of the first frame; default 0"),
        ("last-event-id" = Option<u64>, Header, description = "The index of the last frame read, as an `EventSource` sends it; overrides `from`"),
    ),
    responses(
        (status = 200, description = "The rest of the turn, live", headers(("x-ragwire-turn" = String, description = "The turn")),
            content(
                (String = "text/plain", example = json!(example(&Framed::default()))),
                (String = "text/event-stream", example = json!(example(&Sse::default()))),
                (String = "application/x-ndjson", example = json!(example(&Ndjson::default()))),
            )),
        (status = 204, description = "Nothing is left to read: the turn has ended"),
        (status = 400, description = "`from` or `last-event-id` is not a frame index", body = schemas::Refused),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The turn is unknown or has expired", body = schemas::Refused),
        (status = 406, description = "`Accept` matches none of the three types", body = schemas::Refused),
        (status = 409, description = "Frames that the reader has seen are lost", body = schemas::Refused),
        (status = 410, description = "The journal has dropped frames that the reader needs, or that this wire needs from before them", body = schemas::Refused),
        (status = 416, description = "The turn has not reached that frame yet", body = schemas::Refused),
        (status = 503, description = "The turn's host is not reachable", body = schemas::Refused),
    ),
)]
pub(crate) async fn stream(
    caller: Caller,
    turn: PathParam,
    params: Params,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let wire = negotiate(&headers, wires())?;
    let from = cursor(&params, &headers)?;
    let turn = caller.resume_on(turn_id(turn), from, &wire).await?;
    Ok(caller::stream(turn, wire))
}

/// The outcome of a stop.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stopped)]
pub(crate) struct StopOutcome {
    /// `false` if the turn had already ended.
    pub(crate) stopped: bool,
}

/// Stops a turn.
///
/// Its readers get what was sent so far, then their wire's terminal of a stopped turn.
#[utoipa::path(
    post,
    path = "/v1/turns/{turn_id}/stop",
    tag = "questions",
    operation_id = "stop",
    params(("turn_id" = String, Path, description = "The turn's id, from `x-ragwire-turn`")),
    responses(
        (status = 200, description = "The turn has ended", body = StopOutcome),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The turn is unknown or has expired", body = schemas::Refused),
        (status = 503, description = "The turn's host is not reachable", body = schemas::Refused),
    ),
)]
pub(crate) async fn stop(caller: Caller, turn: PathParam) -> Result<Json<StopOutcome>, Refusal> {
    let stopped = caller.stop(turn_id(turn)).await?;
    Ok(Json(StopOutcome { stopped }))
}
