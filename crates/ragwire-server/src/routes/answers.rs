//! `POST /v1/turns/{turn_id}/answer`: a human answers what a turn asks.
//!
//! It is found as one that is to be read again: by its id, for its owner. Wires that take answers with their next request ([`go_on`]) end
//! up here too.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use ragwire::Turn;
use ragwire::turn::{AnswerError, AnswerOutcome, TurnId};
use ragwire::wire::Wire;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::body;
use super::openapi::BodyRefusals;
use super::owner::Owner;
use super::refusal::Refusal;
use super::start::{self, Holds};
use super::{resume, shapes};
use crate::app::App;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Answer)]
pub(super) struct Posted {
    /// The question, as `input_requested` or `authorization_required` names it.
    request_id: String,
    /// One of the question's options; where it has none, or is of the kind `text`, anything but `null`. At most 16 KiB of JSON.
    response: Value,
}

/// The answer is taken.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AnswerTaken)]
pub(super) struct Taken {
    /// `true` where it was taken now, `false` where an equal one was taken before.
    accepted: bool,
}

/// Answers a question that a running turn asks. The first answer counts.
#[utoipa::path(
    post,
    path = "/v1/turns/{turn_id}/answer",
    tag = "questions",
    operation_id = "answer",
    params(("turn_id" = String, Path, description = "The turn, as `x-ragwire-turn` named it")),
    request_body(content = Posted),
    responses(
        (status = 200, description = "The question has this answer", body = Taken),
        (status = 401, description = "The request does not say whose it is", body = shapes::Refused),
        (status = 404, description = "There is no such turn, or it has not asked this", body = shapes::Refused),
        (status = 409, description = "The question has another answer", body = shapes::Refused),
        (status = 410, description = "Nobody waits for the answer any more", body = shapes::Refused),
        (status = 503, description = "The turn cannot be reached now", body = shapes::Refused),
        BodyRefusals,
    ),
)]
pub(super) async fn answer(
    State(app): State<Arc<App>>,
    owner: Owner,
    turn: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<Taken>, Refusal> {
    let id = turn.ok().and_then(|Path(id)| TurnId::parse(&id));
    // A server that is full still takes answers: it is they that make room.
    let (head, body) = request.into_parts();
    let max_bytes = start::max_bytes(&app, Holds::Answer);
    let bytes = body::read(&head.headers, body, max_bytes, *app.settings.body_timeout).await?;
    let posted: Posted = body::json(&head.headers, &bytes)?;
    let answered = match id {
        Some(id) => {
            let answer = app
                .journal
                .answer(id, owner.as_str(), &posted.request_id, posted.response);
            answer.await
        }
        None => Err(AnswerError::Unknown),
    };
    match answered {
        Ok(answered) => Ok(Json(Taken {
            accepted: answered == AnswerOutcome::Accepted,
        })),
        Err(error) => Err(refused(id.unwrap_or_else(TurnId::random), error)),
    }
}

/// Why an answer is not taken.
pub(super) fn refused(id: TurnId, error: AnswerError) -> Refusal {
    Refusal {
        status: error.status(),
        failure: error.failure(),
        retry_after: None,
        request_id: id,
    }
}

/// What a human answered, in the terms of a wire that takes answers with its next request.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) request_id: String,
    pub(super) answer: Verdict,
}

#[derive(Debug)]
pub(super) enum Verdict {
    /// Yes or no, and nothing else.
    Approved(bool),
    /// One of the options, or words of their own.
    Said(Value),
    /// They will not answer: the same as no, where there is a no. Otherwise the turn is stopped.
    Abandoned,
}

/// Gives answers to a turn, and reads on behind the last of their questions, on `wire`.
///
/// The reader comes first, so that the turn is not without one when it goes on. Of several answers those before a refused one are given.
pub(super) async fn go_on(
    app: &App,
    owner: &Owner,
    id: TurnId,
    given: Vec<Given>,
    wire: &impl Wire,
) -> Result<Turn, Refusal> {
    let refused = |error| refused(id, error);
    let (mut next, mut answers) = (0, Vec::new());
    for Given { request_id, answer } in given {
        let asked = app.journal.asked(id, owner.as_str(), &request_id).await;
        let asked = asked.map_err(refused)?;
        next = asked.next.max(next);
        let is_abandoned = matches!(answer, Verdict::Abandoned);
        let answer = match answer {
            Verdict::Approved(approved) => Some(asked.ask.verdict(approved).ok_or(AnswerError::Invalid)),
            Verdict::Said(answer) => Some(Ok(answer)),
            Verdict::Abandoned => asked.ask.verdict(false).map(Ok),
        };
        answers.push((request_id, answer.transpose().map_err(refused)?, is_abandoned));
    }
    let turn = app.journal.resume(id, owner.as_str(), next).await;
    let turn = turn.map_err(|error| resume::refused(id, error))?;
    turn.supports(wire).map_err(|error| resume::refused(id, error))?;
    for (request_id, answer, is_abandoned) in answers {
        let Some(answer) = answer else {
            let stopped = app.journal.stop(id, owner.as_str()).await;
            stopped.map_err(|error| resume::refused(id, error))?;
            continue;
        };
        match app.journal.answer(id, owner.as_str(), &request_id, answer).await {
            // What nobody waits for can be abandoned.
            Err(AnswerError::Late) if is_abandoned => {}
            answered => drop(answered.map_err(refused)?),
        }
    }
    Ok(turn)
}
