//! Refusals in Eve's form: `{"ok":false,"error":…}`.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::eve::sessions::{AnswerRefused, EveError};
use crate::refusal::Refusal;

/// A refusal in Eve's form.
#[derive(Debug)]
pub(crate) struct EveRefusal {
    refusal: Refusal,
    /// The index of the first line that is still available.
    base: Option<u64>,
}

/// A refused request, in Eve's form.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EveRefusal)]
pub(crate) struct EveRefusalBody {
    /// `false`.
    ok: bool,
    /// A message for the user.
    error: String,
    /// The first index that is still available, if earlier lines were dropped.
    #[serde(rename = "journalBaseIndex", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    journal_base_index: Option<u64>,
}

impl From<Refusal> for EveRefusal {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, base: None }
    }
}

impl From<EveError> for EveRefusal {
    fn from(error: EveError) -> Self {
        let refusal = match error {
            EveError::Unknown => {
                Refusal::permanent(StatusCode::NOT_FOUND, "session_not_found", "Session not found.")
            }
            EveError::Active => {
                Refusal::temporary(StatusCode::CONFLICT, "session_active", "Session is still active.")
            }
            EveError::Failed => {
                Refusal::permanent(StatusCode::GONE, "session_terminal", "Session is terminal.")
            }
            EveError::Token => Refusal::permanent(
                StatusCode::CONFLICT,
                "continuation_token",
                "Stale or missing continuation token.",
            ),
            EveError::Truncated { base } => {
                let message = match base {
                    Some(base) => format!("The lines before index {base} are no longer available."),
                    None => "These lines are no longer available.".to_owned(),
                };
                let refusal = Refusal::permanent(StatusCode::BAD_REQUEST, "start_index_truncated", message);
                return Self { refusal, base };
            }
            EveError::Unavailable => Refusal::temporary(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "The session's host is not reachable. Please retry.",
            ),
            EveError::Store(_) | EveError::Damaged(_) => Refusal::internal(&error),
        };
        refusal.into()
    }
}

impl From<AnswerRefused> for EveRefusal {
    fn from(refused: AnswerRefused) -> Self {
        match refused {
            AnswerRefused::Session(error) => error.into(),
            AnswerRefused::Answer(turn, error) => Refusal::of_answer(turn, error).into(),
        }
    }
}

impl IntoResponse for EveRefusal {
    fn into_response(self) -> Response {
        self.refusal.log();
        let body = EveRefusalBody {
            ok: false,
            error: self.refusal.failure.message.to_string(),
            journal_base_index: self.base,
        };
        let body = serde_json::to_value(body).unwrap_or_default();
        self.refusal.respond_with(body)
    }
}
