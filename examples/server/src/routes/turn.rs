//! From a request to a turn: what the routes of all wires have in common.
//!
//! A route reads its own body with [`read`], says in [`Asked`] what is asked, and gets a committed turn from [`start`]. What it
//! answers, and how a [`Refusal`] looks on its wire, is its own business.

use std::sync::Arc;

use axum::extract::Request;
use http::StatusCode;
use ragwire::event::Mode;
use ragwire::turn::{Ask, BoxError, Collected, Ending};
use ragwire::{Metadata, QueueStats, Status, Turn};
use serde::de::DeserializeOwned;

use super::body;
use super::refusal::Refusal;
use crate::app::App;
use crate::orchestrator::{Effort, Question};
use crate::sessions::{Remembered, Role, Said, SessionLimits, Sessions};
use crate::writers::Writing;

/// What stands around the texts in a body: braces, the other members.
const ENVELOPE_BYTES: usize = 4096;
/// The same where a body holds a whole conversation, with ids and metadata for each of its messages.
const CONVERSATION_ENVELOPE_BYTES: usize = 1 << 20;
/// One byte of text may be written as an escape of six.
const ESCAPE_BYTES: usize = 6;

/// A question, and where it comes from.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) prompt: String,
    pub(super) effort: Effort,
    pub(super) review: bool,
    pub(super) mode: Option<Mode>,
    pub(super) memory: Memory,
    /// The mode that the metadata names where the turn fails and the orchestrator cannot say it.
    pub(super) names_mode: Option<&'static str>,
    /// What the wire tells of the metadata.
    pub(super) shape: fn(Metadata) -> Metadata,
}

/// What was said before, and whether this turn is remembered.
#[derive(Debug)]
pub(super) enum Memory {
    /// The question stands alone.
    Nothing,
    /// The client sent it along and remembers for itself, oldest first.
    Given(Vec<Said>),
    /// This server remembers it under that id.
    Session(String),
    /// The same, under an id that is a secret: nobody is told that it is being answered in.
    Hidden(String),
    /// As `Session`, for a turn that waited until it was alone in its session, and stays so until its answer is remembered.
    Alone(String, Writing),
}

impl Asked {
    /// A question that stands alone, with the defaults of every route.
    pub(super) fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            effort: Effort::default(),
            review: false,
            mode: None,
            memory: Memory::Nothing,
            names_mode: None,
            shape: |metadata| metadata,
        }
    }

    /// How it is to be answered: an agent judges what it found and searches again.
    pub(super) fn mode(mut self, mode: Option<Mode>) -> Self {
        self.review |= mode == Some(Mode::Agentic);
        self.mode = mode;
        self
    }

    /// What was said before.
    pub(super) fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }
}

/// How much a body may hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holds {
    /// One question.
    Question,
    /// One question and everything said before it.
    Conversation,
    /// An answer to a question of the turn's own.
    Answer,
}

/// The longest request that holds so much, in bytes.
pub(super) fn max_bytes(app: &App, holds: Holds) -> usize {
    let max_question = app.settings.max_question.0;
    match holds {
        Holds::Question => max_question * ESCAPE_BYTES + ENVELOPE_BYTES,
        Holds::Conversation => {
            (max_question + app.settings.session_size.0) * ESCAPE_BYTES + CONVERSATION_ENVELOPE_BYTES
        }
        Holds::Answer => Ask::MAX_ANSWER_BYTES * ESCAPE_BYTES + ENVELOPE_BYTES,
    }
}

/// Reads a request's JSON, after what costs nothing: a server that is full does not read the question.
pub(super) async fn read<T: DeserializeOwned>(
    app: &App,
    holds: Holds,
    request: Request,
) -> Result<T, Refusal> {
    let (head, body) = request.into_parts();
    if let Err(rejected) = app.turns.check() {
        body::linger(&head.headers, body).await;
        return Err(rejected.into());
    }
    let bytes = body::read(
        &head.headers,
        body,
        max_bytes(app, holds),
        app.settings.body_timeout.0,
    )
    .await?;
    body::json(&head.headers, &bytes)
}

/// The id of a session as a client chose it.
pub(super) fn session_id(id: Option<String>) -> Result<String, Refusal> {
    id.filter(|id| Sessions::is_id(id)).ok_or_else(|| {
        Refusal::permanent(
            StatusCode::BAD_REQUEST,
            "bad_session_id",
            "A session id has 1 to 128 letters, digits, `-`, `_` and `.`.",
        )
    })
}

/// A request that is JSON and yet not what the route takes.
pub(super) fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::permanent(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
}

/// Starts the turn, and waits for the moment at which the response begins.
pub(super) async fn start(app: &App, asked: Asked) -> Result<Turn, Refusal> {
    Ok(start_in_session(app, asked).await?.0)
}

/// The same, with the session as it stands with the question in it; none for a question that belongs to none.
pub(super) async fn start_in_session(app: &App, asked: Asked) -> Result<(Turn, Option<Remembered>), Refusal> {
    let max_question = app.settings.max_question.0;
    if asked.prompt.trim().is_empty() {
        return Err(invalid("The prompt is empty."));
    }
    if asked.prompt.len() > max_question {
        return Err(invalid(format!(
            "The prompt has more than {max_question} bytes of UTF-8."
        )));
    }
    // Whose session, and the place among those who answer in it.
    let (mut earlier, mut session, mut queue_stats) = (Vec::new(), None, None);
    match asked.memory {
        Memory::Nothing => {}
        Memory::Given(said) => earlier = SessionLimits::from(&app.settings).newest(said),
        Memory::Session(id) => {
            let writing = app.writers.join(&id);
            session = Some((id, Some(writing)));
        }
        Memory::Hidden(id) => session = Some((id, None)),
        Memory::Alone(id, writing) => {
            let waited = writing.waited();
            let stats = QueueStats::new(waited.at_all, waited.position);
            queue_stats = Some(stats.queue_wait_ms(waited.time.as_secs_f64() * 1e3));
            session = Some((id, Some(writing)));
        }
    }
    if let Some((id, _)) = &session {
        earlier = app.sessions.said(id);
    }
    let question = Question {
        prompt: asked.prompt,
        effort: asked.effort,
        review: asked.review,
        mode: asked.mode,
        earlier,
    };
    let mut builder = Turn::builder().group(&app.turns).timeouts(app.timeouts());
    if let Some(mode) = asked.names_mode {
        builder = builder.mode(mode);
    }
    let asking = session.as_ref().map(|(id, _)| id.clone());
    if let Some((id, writing)) = session {
        let sessions = Arc::clone(&app.sessions);
        builder = builder.before_end(move |ending: Ending| async move {
            let answer = ending.answer();
            // A turn that was stopped before its first word has nothing to remember.
            if !answer.is_empty() {
                sessions.append(&id, Role::Assistant, &answer);
            }
            drop(writing);
        });
    }
    let mut remembered = None;
    let pending = builder.start(|sink| {
        // Called only if the turn is admitted, so a refused question is not remembered. The answer may be there any moment after.
        if let Some(id) = &asking {
            app.sessions.append(id, Role::User, &question.prompt);
            remembered = app.sessions.remembered(id);
        }
        let answering = app.orchestrator.answer(question, sink);
        let shape = asked.shape;
        async move {
            let mut metadata = shape(answering.await?);
            metadata.queue_stats = queue_stats.or(metadata.queue_stats);
            Ok::<_, BoxError>(metadata)
        }
    });
    Ok((pending.commit().await?, remembered))
}

/// The whole turn, for a response that does not stream. Nothing was sent yet, so a failure is an HTTP status, however late it came.
pub(super) async fn collect(turn: Turn) -> Result<Collected, Refusal> {
    let collected = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    if matches!(collected.end.status, Status::Failed(_)) {
        return Ok(collected.into_result()?);
    }
    Ok(collected)
}
