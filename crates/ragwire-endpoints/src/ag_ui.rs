//! `POST /ag-ui`: the route of an AG-UI agent, which `HttpAgent` calls.
//!
//! If a turn asks a human, its run ends with an interrupt, and `resume` in the next request answers
//! it. The id of an interrupt is the turn's id, `-`, and the question's `request_id`: the id of a
//! turn cannot be guessed, but that of a thread can.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use ragwire::turn::{AnswerError, TurnId};
use ragwire::{AgUi, Question};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::caller::{Caller, stream};
use crate::human::{HumanAnswer, Verdict};
use crate::messages;
pub use crate::messages::Message;
use crate::openapi::{self, TurnRefusals, example};
use crate::openapi::{requests, schemas};
use crate::refusal::Refusal;
use crate::request::{self, BodyKind, invalid};
use crate::shared::Shared;
use crate::start::Reader;
use crate::turns::answers;

/// Returns the route of AG-UI.
pub(crate) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::protocol("ag-ui", "AG-UI.")).routes(routes!(run))
}

/// Longest id of a thread or a run, in bytes. Every object of the stream repeats them, so a long id
/// would be sent a thousand times; a UUID has 36 bytes.
const MAX_ID_BYTES: usize = 256;

/// `RunAgentInput`. State, tools and context are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RunAgentInput {
    /// The conversation.
    #[schema(min_length = 1, max_length = 256)]
    pub thread_id: String,
    /// The run, which the client names.
    #[schema(min_length = 1, max_length = 256)]
    pub run_id: String,
    /// The messages, oldest first.
    #[schema(value_type = requests::ChatMessages)]
    pub messages: Vec<Message>,
    /// Answers to the interrupts of the last run.
    #[serde(default)]
    pub resume: Option<Vec<ResumeEntry>>,
    /// The application's own members; anything else than an object is ignored.
    #[serde(default)]
    #[schema(value_type = Value, required = false)]
    pub forwarded_props: Value,
}

impl RunAgentInput {
    /// Returns the question, with the files of the user as attachments and `forwardedProps` in
    /// `options.extra`.
    ///
    /// # Errors
    ///
    /// 422 if no message is the user's, or one of them has a part that is neither a text nor a
    /// file.
    pub fn question(self) -> Result<Question, Refusal> {
        self.read(true)
    }

    /// Returns the turn that `resume` continues, and the answers of the human. `None` if the
    /// request asks a question.
    ///
    /// # Errors
    ///
    /// 404 if an interrupt has no valid id, 422 if the interrupts belong to several turns.
    pub fn answers(&self) -> Result<Option<(TurnId, Vec<HumanAnswer>)>, Refusal> {
        match self.resume.as_deref() {
            None | Some([]) => Ok(None),
            Some(resume) => answers(resume).map(Some),
        }
    }

    fn check_ids(&self) -> Result<(), Refusal> {
        for (name, id) in [("threadId", &self.thread_id), ("runId", &self.run_id)] {
            if id.is_empty() || id.len() > MAX_ID_BYTES {
                return Err(invalid(format!("`{name}` must have 1 to {MAX_ID_BYTES} bytes.")));
            }
        }
        Ok(())
    }

    fn read(self, attachments: bool) -> Result<Question, Refusal> {
        let mut question = messages::question(self.messages, attachments)?;
        if let Value::Object(extra) = self.forwarded_props {
            question.options.extra = extra;
        }
        Ok(question)
    }
}

/// An answer to an interrupt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResumeEntry {
    /// The interrupt: the turn's id, `-`, and the question's `request_id`.
    pub interrupt_id: String,
    /// Whether there is an answer.
    pub status: ResumeStatus,
    /// The answer, as the interrupt's `responseSchema` describes it.
    #[serde(default)]
    pub payload: Value,
}

/// Whether an interrupt has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ResumeStatus {
    /// `payload` is the answer.
    Resolved,
    /// No answer. This counts as no if the question has a no; otherwise it stops the turn.
    Cancelled,
}

/// Returns the turn that is answered, and the answers.
fn answers(resume: &[ResumeEntry]) -> Result<(TurnId, Vec<HumanAnswer>), Refusal> {
    let (mut turns, mut answers) = (Vec::new(), Vec::new());
    for ResumeEntry {
        interrupt_id,
        status,
        payload,
    } in resume
    {
        let parts = interrupt_id.split_once('-');
        let parts = parts.and_then(|(turn, request_id)| Some((TurnId::parse(turn)?, request_id.to_owned())));
        let Some((turn, request_id)) = parts else {
            return Err(Refusal::of_answer(TurnId::random(), AnswerError::Unknown));
        };
        turns.push(turn);
        let verdict = match status {
            ResumeStatus::Resolved => Verdict::Response(payload.clone()),
            ResumeStatus::Cancelled => Verdict::Abandoned,
        };
        answers.push(HumanAnswer { request_id, verdict });
    }
    turns.dedup();
    match turns[..] {
        [turn] => Ok((turn, answers)),
        _ => Err(invalid("`resume` must answer the interrupts of one run.")),
    }
}

/// Runs the agent, or continues the run whose interrupts `resume` answers.
#[utoipa::path(
    post,
    path = "/ag-ui",
    tag = "ag-ui",
    operation_id = "agUi",
    request_body(content = RunAgentInput, example = json!({
        "threadId": "thread-1",
        "runId": "run-1",
        "state": {},
        "messages": [{ "id": "m-1", "role": "user", "content": "What is the commit rule?" }],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    })),
    responses(
        TurnRefusals,
        (status = 200, description = "AG-UI's events", headers(("x-ragwire-turn" = String, description = "The turn's id")),
            content((String = "text/event-stream", example = json!(example(&AgUi::new("thread-1", "run-1")))))),
        (status = 404, description = "No turn has asked this question", body = schemas::Refused),
        (status = 409, description = "The question already has another answer", body = schemas::Refused),
        (status = 410, description = "The question is no longer open", body = schemas::Refused),
    ),
)]
pub(crate) async fn run(caller: Caller, request: Request) -> Result<Response, Refusal> {
    let run: RunAgentInput = request::read_json(&caller.shared, BodyKind::Conversation, request).await?;
    run.check_ids()?;
    let wire = AgUi::new(&*run.thread_id, &*run.run_id).parks();
    let wire = |turn: TurnId| wire.id_prefix(turn.to_string());
    let (turn, wire) = match run.answers()? {
        None => {
            // `abortRun` only closes the connection, and the protocol cannot resume a run.
            let question = run.read(caller.shared.accepts_attachments)?;
            let turn = caller.start(Reader::Leaving, question).await?;
            let wire = wire(turn.id());
            (turn, wire)
        }
        Some((id, answers)) => {
            let wire = wire(id);
            let turn = answers::answer_and_resume(&caller, id, answers, &wire).await?;
            (turn, wire)
        }
    };
    Ok(stream(turn, wire))
}
