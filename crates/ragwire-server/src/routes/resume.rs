//! `/v1/turns/{turn_id}/stream` and `…/stop`: a turn is read again, by whoever lost it or by another reader, and it is stopped.
//!
//! Going away is not stopping. What a turn does when its last reader has gone is said where it is asked, in [`start::Reader`].

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use http::HeaderMap;
use ragwire::http::negotiate;
use ragwire::turn::{ResumeError, TurnId};
use ragwire::{Framed, Ndjson, Rejected, Sse};
use serde::Serialize;
use utoipa::ToSchema;

use super::cursor::cursor;
use super::native;
use super::openapi::example;
use super::owner::Owner;
use super::refusal::Refusal;
use super::shapes;
use crate::app::App;

type Turn = Result<Path<String>, PathRejection>;

/// Reads a turn again, from any frame on and live to its end.
///
/// It may be read on another wire than before, and by any number of readers. 204 where nothing is left to read, which tells an
/// `EventSource` not to come back.
#[utoipa::path(
    get,
    path = "/v1/turns/{turn_id}/stream",
    tag = "questions",
    operation_id = "turnStream",
    params(
        ("turn_id" = String, Path, description = "The turn, as `x-ragwire-turn` named it"),
        ("from" = Option<u64>, Query, description = "The index of the first frame wanted; 0 unless it says otherwise"),
        ("last-event-id" = Option<u64>, Header, description = "The index of the last frame read, as an `EventSource` sends it; wins over `from`"),
    ),
    responses(
        (status = 200, description = "The rest of the turn, live", headers(("x-ragwire-turn" = String, description = "The turn")),
            content(
                (String = "text/plain", example = json!(example(&Framed::default()))),
                (String = "text/event-stream", example = json!(example(&Sse::default()))),
                (String = "application/x-ndjson", example = json!(example(&Ndjson::default()))),
            )),
        (status = 204, description = "Nothing is left to read: the turn is over"),
        (status = 400, description = "`from` or `last-event-id` is no place", body = shapes::Refused),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        (status = 404, description = "There is no such turn, or not any more", body = shapes::Refused),
        (status = 406, description = "`Accept` takes none of the three", body = shapes::Refused),
        (status = 409, description = "Frames that were read are lost", body = shapes::Refused),
        (status = 410, description = "The frames from there on are no longer all kept, or what this wire has to know of those before", body = shapes::Refused),
        (status = 416, description = "The turn has not come that far", body = shapes::Refused),
        (status = 503, description = "The turn cannot be reached now", body = shapes::Refused),
    ),
)]
pub(super) async fn stream(
    State(app): State<Arc<App>>,
    owner: Owner,
    turn: Turn,
    query: Result<Query<Vec<(String, String)>>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let wire = negotiate(&headers, native::wires())?;
    let query = query.map(|Query(query)| query).unwrap_or_default();
    let from = cursor(&query, &headers)?;
    let id = find(turn);
    let resumed = app.journal.resume(id, owner.as_str(), from).await;
    let turn = resumed.map_err(|error| refused(id, error))?;
    turn.supports(&wire).map_err(|error| refused(id, error))?;
    Ok(turn.respond(wire).map(Body::new))
}

/// Whether it was this call that stopped the turn.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stopped {
    /// `false` where it was over already.
    pub(super) stopped: bool,
}

/// Stops a turn. Its readers get what was sent so far, and their wire's end of a turn that was stopped.
#[utoipa::path(
    post,
    path = "/v1/turns/{turn_id}/stop",
    tag = "questions",
    operation_id = "stop",
    params(("turn_id" = String, Path, description = "The turn, as `x-ragwire-turn` named it")),
    responses(
        (status = 200, description = "The turn is over", body = Stopped),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        (status = 404, description = "There is no such turn, or not any more", body = shapes::Refused),
        (status = 503, description = "The turn cannot be reached now", body = shapes::Refused),
    ),
)]
pub(super) async fn stop(
    State(app): State<Arc<App>>,
    owner: Owner,
    turn: Turn,
) -> Result<Json<Stopped>, Refusal> {
    let id = find(turn);
    let stopped = app.journal.stop(id, owner.as_str()).await;
    Ok(Json(Stopped {
        stopped: stopped.map_err(|error| refused(id, error))?,
    }))
}

/// In place of what cannot be an id, one of a turn that there never was.
fn find(turn: Turn) -> TurnId {
    let id = turn.ok().and_then(|Path(id)| TurnId::parse(&id));
    id.unwrap_or_else(TurnId::random)
}

/// Why a turn is not read again, or not stopped.
pub(super) fn refused(id: TurnId, error: impl Into<ResumeError>) -> Refusal {
    Refusal {
        request_id: id,
        ..Rejected::from(error.into()).into()
    }
}
