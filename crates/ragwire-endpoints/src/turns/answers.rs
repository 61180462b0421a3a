//! `POST /v1/turns/{turn_id}/answer`: a human answers a question of the turn.
//!
//! The turn is looked up as for resuming: by its id, for its owner. Wires that send answers with
//! their next request use [`answer_and_resume`].

use axum::Json;
use axum::extract::Request;
use ragwire::Turn;
use ragwire::turn::{self, AnswerError, TurnId};
use ragwire::wire::Wire;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::caller::Caller;
use crate::human::{HumanAnswer, Verdict};
use crate::openapi::BodyRefusals;
use crate::openapi::schemas;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, PathParam, turn_id};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Answer)]
pub(crate) struct AnswerRequest {
    /// The `request_id` in `input_requested` or `authorization_required`.
    request_id: String,
    /// One of the question's options. Without options, or for the kind `text`, any value except
    /// `null`. At most 16 KiB of JSON.
    response: Value,
}

/// The outcome of an answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AnswerTaken)]
pub(crate) struct AnswerOutcome {
    /// `true` if the answer was accepted now, `false` if the question already had the same answer.
    accepted: bool,
}

/// Answers a question of a running turn. The first answer counts.
#[utoipa::path(
    post,
    path = "/v1/turns/{turn_id}/answer",
    tag = "questions",
    operation_id = "answer",
    params(("turn_id" = String, Path, description = "The turn's id, from `x-ragwire-turn`")),
    request_body(content = AnswerRequest),
    responses(
        (status = 200, description = "The question has this answer", body = AnswerOutcome),
        (status = 401, description = "The request has no valid owner", body = schemas::Refused),
        (status = 404, description = "The turn is unknown, or has no such question", body = schemas::Refused),
        (status = 409, description = "The question already has another answer", body = schemas::Refused),
        (status = 410, description = "The question is no longer open", body = schemas::Refused),
        (status = 503, description = "The turn's host is not reachable", body = schemas::Refused),
        BodyRefusals,
    ),
)]
pub(crate) async fn answer(
    caller: Caller,
    id: PathParam,
    request: Request,
) -> Result<Json<AnswerOutcome>, Refusal> {
    // A full server accepts answers too, because they are what makes room.
    let AnswerRequest { request_id, response } =
        request::read_json(&caller.shared, BodyKind::Answer, request).await?;
    let (id, owner) = (turn_id(id), caller.owner.as_str());
    let answered = caller
        .shared
        .journal
        .answer(id, owner, &request_id, response)
        .await;
    Ok(Json(AnswerOutcome {
        accepted: answered.map_err(|error| Refusal::of_answer(id, error))? == turn::AnswerOutcome::Accepted,
    }))
}

/// Passes answers to a turn and resumes it on `wire` after the last of their questions.
///
/// The turn is resumed first, so that it has a reader when it continues. If one of several answers
/// is refused, those before it count.
pub(crate) async fn answer_and_resume(
    caller: &Caller,
    id: TurnId,
    answers: Vec<HumanAnswer>,
    wire: &impl Wire,
) -> Result<Turn, Refusal> {
    let refused = |error| Refusal::of_answer(id, error);
    let (journal, owner) = (&caller.shared.journal, caller.owner.as_str());
    let (mut next, mut resolved) = (0, Vec::new());
    for HumanAnswer { request_id, verdict } in answers {
        let question = journal.request(id, owner, &request_id).await;
        let question = question.map_err(refused)?;
        next = question.next.max(next);
        let is_abandoned = matches!(verdict, Verdict::Abandoned);
        let answer = match verdict {
            Verdict::Approval(approved) => Some(question.ask.verdict(approved).ok_or(AnswerError::Invalid)),
            Verdict::Response(answer) => Some(Ok(answer)),
            Verdict::Abandoned => question.ask.verdict(false).map(Ok),
        };
        resolved.push((request_id, answer.transpose().map_err(refused)?, is_abandoned));
    }
    let turn = caller.resume_on(id, next, wire).await?;
    for (request_id, answer, is_abandoned) in resolved {
        let Some(answer) = answer else {
            caller.stop(id).await?;
            continue;
        };
        match journal.answer(id, owner, &request_id, answer).await {
            // A question that is no longer open counts as abandoned.
            Err(AnswerError::Late) if is_abandoned => {}
            answered => drop(answered.map_err(refused)?),
        }
    }
    Ok(turn)
}
