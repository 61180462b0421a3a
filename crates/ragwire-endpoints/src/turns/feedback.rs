//! `GET /v1/turns/{turn_id}`: a finished turn by its ID, for a link to it. `POST …/feedback` stores
//! what its reader thinks, and `GET /v1/feedback` exports that.

use axum::Json;
use axum::extract::Request;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::openapi::{BodyRefusals, schemas};
use crate::records::{Feedback, Rating, TurnRecord};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, PathParam, invalid, turn_id};

/// Longest note, in bytes: a page of text.
const MAX_NOTE_BYTES: usize = 4_000;

/// Feedback on an answer. `rating: null` removes it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FeedbackRequest {
    // Without this attribute, serde would read a missing member as `null`.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required = true)]
    rating: Option<Rating>,
    /// At most 4,000 bytes of UTF-8.
    #[schema(max_length = 4_000)]
    note: Option<String>,
}

/// The answers with feedback.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedbackExport {
    /// The one changed last first.
    turns: Vec<TurnRecord>,
}

/// Returns a finished turn of a session.
///
/// Turns are recorded as long as sessions are stored, which is longer than they can be resumed.
#[utoipa::path(
    get,
    path = "/v1/turns/{turn_id}",
    tag = "questions",
    operation_id = "turnRecord",
    params(("turn_id" = String, Path, description = "The turn's id, from `x-ragwire-turn`")),
    responses(
        (status = 200, description = "The turn", body = TurnRecord),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The turn is unknown, has not ended, or belongs to no session", body = schemas::Refused),
    ),
)]
pub(crate) async fn get(caller: Caller, id: PathParam) -> Result<Json<TurnRecord>, Refusal> {
    let record = caller
        .shared
        .records
        .get(caller.owner.as_str(), turn_id(id))
        .await;
    Ok(Json(record.map_err(Refusal::of_record)?))
}

/// Stores feedback on an answer, in place of earlier feedback.
#[utoipa::path(
    post,
    path = "/v1/turns/{turn_id}/feedback",
    tag = "questions",
    operation_id = "turnFeedback",
    params(("turn_id" = String, Path, description = "The turn's id, from `x-ragwire-turn`")),
    request_body(content = FeedbackRequest),
    responses(
        (status = 200, description = "The turn with its feedback", body = TurnRecord),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The turn is unknown, has not ended, or belongs to no session", body = schemas::Refused),
        BodyRefusals,
    ),
)]
pub(crate) async fn set(
    caller: Caller,
    id: PathParam,
    request: Request,
) -> Result<Json<TurnRecord>, Refusal> {
    let FeedbackRequest { rating, note } =
        request::read_json(&caller.shared, BodyKind::Question, request).await?;
    let note = note.filter(|note| !note.trim().is_empty());
    if note.as_ref().is_some_and(|note| note.len() > MAX_NOTE_BYTES) {
        return Err(invalid(format!(
            "The note is longer than {MAX_NOTE_BYTES} bytes of UTF-8."
        )));
    }
    let feedback = rating.map(|rating| Feedback { rating, note });
    let records = &caller.shared.records;
    let record = records
        .set_feedback(caller.owner.as_str(), turn_id(id), feedback)
        .await;
    Ok(Json(record.map_err(Refusal::of_record)?))
}

/// Exports the caller's answers with feedback: of the last 1,000 turns.
///
/// An anonymous caller gets 403 unless the server has only one user.
#[utoipa::path(
    get,
    path = "/v1/feedback",
    tag = "questions",
    operation_id = "feedback",
    responses(
        (status = 200, description = "Questions, answers and feedback", body = FeedbackExport),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 403, description = "Callers are anonymous", body = schemas::Refused),
    ),
)]
pub(crate) async fn export(caller: Caller) -> Result<Json<FeedbackExport>, Refusal> {
    caller.check_lists()?;
    let turns = caller.shared.records.with_feedback(caller.owner.as_str()).await?;
    Ok(Json(FeedbackExport { turns }))
}
