//! From a request to a turn: what the routes of all wires have in common.
//!
//! A route reads its own body with [`read`], says in [`Asked`] what is asked and in [`Reader`] who reads the answer, and gets a committed
//! turn from [`start`]. What it answers, and how a [`Refusal`] looks on its wire, is its own business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use http::StatusCode;
use ragwire::event::Mode;
use ragwire::session::{Message, Role, Session, SessionError, Sessions};
use ragwire::turn::{Ask, BoxError, Collected, Disconnect, Ending, StopError};
use ragwire::{Failure, FailureKind, Metadata, Rejected, Status, Turn};
use serde::de::DeserializeOwned;

use super::body;
use super::owner::Owner;
use super::refusal::Refusal;
use super::resume::refused;
use crate::app::App;
use crate::orchestrator::{Effort, Question, Service};

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
    /// Whether the answer is checked once it is written.
    pub(super) verify: bool,
    /// Whether the passages are told after the answer.
    pub(super) sources_last: bool,
    pub(super) mode: Option<Mode>,
    pub(super) memory: Memory,
    pub(super) service: Service,
    /// The chat that the client keeps. What still runs there is stopped: a page that went away, and asks something else, is done with it.
    pub(super) chat: Option<String>,
    /// The mode that the metadata names where the turn fails and the orchestrator cannot say it.
    pub(super) names_mode: Option<&'static str>,
    /// What the wire tells of the metadata.
    pub(super) shape: fn(Metadata) -> Metadata,
}

/// Who reads the answer, and what their going away means.
///
/// Every turn that streams is journaled, so that its reader can come back, others can read it too, and it can be stopped and answered
/// by its id. What becomes of it without a reader is the route's to say, by what its clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// It gets the answer in one piece, or never learns the turn's id: nothing is kept, and the turn ends with its connection.
    Whole,
    /// Going away is its way to stop, or it has no way to come back: the turn ends with its connection.
    Leaving,
    /// It can come back: the turn goes on for `--disconnect-grace`.
    Returning,
    /// The turn goes on to its end, whoever reads.
    Absent,
}

/// What was said before, and whether this turn is remembered.
#[derive(Debug)]
pub(super) enum Memory {
    /// The question stands alone.
    Nothing,
    /// The client sent it along and remembers for itself, oldest first.
    Given(Vec<Message>),
    /// This server remembers it under that id. It waits until nobody else is answered there.
    Session(String),
    /// The same, in a session that has to be there when its turn comes.
    Begun(String),
    /// The same in a space of its own, which the other routes do not look into. Its route lets one in at a time.
    Apart {
        /// What its owner is called there.
        space: String,
        /// The session.
        id: String,
    },
}

impl Asked {
    /// A question that stands alone, with the defaults of every route.
    pub(super) fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            effort: Effort::default(),
            review: false,
            verify: true,
            sources_last: false,
            mode: None,
            memory: Memory::Nothing,
            service: Service::default(),
            chat: None,
            names_mode: None,
            shape: |metadata| metadata,
        }
    }

    /// How it is to be answered, where the client says so.
    pub(super) fn mode(mut self, mode: Option<Mode>) -> Self {
        self.mode = mode;
        self
    }

    /// What kind of answer is wanted.
    pub(super) fn service(mut self, service: Service) -> Self {
        self.service = service;
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
    let max_question = *app.settings.max_question;
    match holds {
        Holds::Question => max_question * ESCAPE_BYTES + ENVELOPE_BYTES,
        Holds::Conversation => {
            (max_question + *app.settings.session_size) * ESCAPE_BYTES + CONVERSATION_ENVELOPE_BYTES
        }
        Holds::Answer => Ask::MAX_ANSWER_BYTES * ESCAPE_BYTES + ENVELOPE_BYTES,
    }
}

/// Reads a request's JSON that may hold answers, which a server that is full still takes: it is they that make room. A question is refused
/// then by [`start`].
pub(super) async fn read_answers<T: DeserializeOwned>(
    app: &App,
    holds: Holds,
    request: Request,
) -> Result<T, Refusal> {
    let (head, body) = request.into_parts();
    let max_bytes = max_bytes(app, holds);
    let bytes = body::read(&head.headers, body, max_bytes, *app.settings.body_timeout).await?;
    body::json(&head.headers, &bytes)
}

/// Reads a request's JSON, after what costs nothing: a server that is full does not read the question.
pub(super) async fn read<T: DeserializeOwned>(
    app: &App,
    holds: Holds,
    request: Request,
) -> Result<T, Refusal> {
    if let Err(rejected) = app.turns.check() {
        let (head, body) = request.into_parts();
        body::linger(&head.headers, body).await;
        return Err(rejected.into());
    }
    read_answers(app, holds, request).await
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
pub(super) async fn start(app: &App, owner: &Owner, reader: Reader, asked: Asked) -> Result<Turn, Refusal> {
    start_in_session(app, owner, reader, asked, |_| ()).await
}

/// The same; `tell` is told the session as it stands with the question in it, before it is answered.
pub(super) async fn start_in_session<F>(
    app: &App,
    owner: &Owner,
    reader: Reader,
    asked: Asked,
    tell: F,
) -> Result<Turn, Refusal>
where
    F: FnOnce(Session) + Send + 'static,
{
    let max_question = *app.settings.max_question;
    if asked.prompt.trim().is_empty() {
        return Err(invalid("The prompt is empty."));
    }
    if asked.prompt.len() > max_question {
        return Err(invalid(format!(
            "The prompt has more than {max_question} bytes of UTF-8."
        )));
    }
    let (mut given, mut session) = (Vec::new(), None);
    // By sessions and chats, not by owners: one may ask in several at a time.
    let mut builder = Turn::builder()
        .group(&app.turns)
        .timeouts(app.timeouts())
        .no_lane();
    if let Some(name) = owner.name() {
        builder = builder.owner(name);
    }
    if reader != Reader::Whole {
        builder = builder.journal(&app.journal).on_disconnect(match reader {
            Reader::Whole | Reader::Leaving => Disconnect::cancel(),
            Reader::Returning => app.grace(),
            Reader::Absent => Disconnect::go_on(),
        });
    }
    if let Some(chat) = &asked.chat {
        let lane = chat_lane(owner, chat);
        stop_newest(app, owner, &lane).await?;
        builder = builder.lane(lane);
    }
    match asked.memory {
        Memory::Nothing => {}
        Memory::Given(said) => given = app.sessions.limits().newest(said),
        Memory::Session(id) => {
            builder = builder.lane(session_lane(owner, &id));
            session = Some((owner.as_str().to_owned(), id, true));
        }
        Memory::Begun(id) => {
            builder = builder.lane(session_lane(owner, &id));
            session = Some((owner.as_str().to_owned(), id, false));
        }
        Memory::Apart { space, id } => session = Some((space, id, false)),
    }
    if let Some(mode) = asked.names_mode {
        builder = builder.mode(mode);
    }
    let remembered = Arc::new(AtomicBool::new(false));
    if let Some((owner, id, _)) = session.clone() {
        let (sessions, remembered) = (app.sessions.clone(), Arc::clone(&remembered));
        builder = builder.before_end(move |ending: Ending| async move {
            let answer = ending.answer();
            // A question that waited in vain was not asked, and a turn that was stopped before its first word has no answer.
            if remembered.load(Ordering::Acquire) && !answer.is_empty() {
                match sessions.append(&owner, &id, Role::Assistant, &answer).await {
                    // It was forgotten in the meantime.
                    Ok(_) | Err(SessionError::Unknown) => {}
                    Err(error) => tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "an answer was not remembered"
                    ),
                }
            }
        });
    }
    let asker = owner.as_str().to_owned();
    let pending = builder.start(|sink| {
        let (orchestrator, sessions) = (Arc::clone(&app.orchestrator), app.sessions.clone());
        // From here on it has its place: the answers that it waited for are there.
        async move {
            let mut earlier = given;
            if let Some((owner, id, may_begin)) = &session {
                let found = if *may_begin {
                    sessions.get_or_begin(owner, id).await
                } else {
                    // One that is gone must not come back with half of what was said.
                    sessions.get(owner, id).await
                };
                earlier = found.map_err(forgotten)?.messages;
                let appended = sessions.append(owner, id, Role::User, &asked.prompt).await;
                let appended = appended.map_err(forgotten)?;
                remembered.store(true, Ordering::Release);
                tell(appended);
            }
            let question = Question {
                prompt: asked.prompt,
                effort: asked.effort,
                review: asked.review,
                verify: asked.verify,
                sources_last: asked.sources_last,
                owner: asker,
                mode: asked.mode,
                earlier,
                service: asked.service,
            };
            let metadata = orchestrator.answer(question, sink).await?;
            Ok::<_, BoxError>((asked.shape)(metadata))
        }
    });
    Ok(pending.commit().await?)
}

/// The lane of a session: its owner's, one question at a time.
pub(super) fn session_lane(owner: &Owner, id: &str) -> String {
    format!("session/{id}/{}", owner.as_str())
}

/// The session whose lane it is, if it is one of that owner's.
pub(super) fn session_of<'a>(owner: &Owner, lane: &'a str) -> Option<&'a str> {
    let (id, whose) = lane.strip_prefix("session/")?.split_once('/')?;
    (whose == owner.as_str()).then_some(id)
}

/// The lane of a chat. It is no session's, by its first word; and each owner has chats of their own.
pub(super) fn chat_lane(owner: &Owner, chat: &str) -> String {
    format!("chat/{chat}/{}", owner.as_str())
}

/// Stops the newest turn of a lane. False where none runs.
pub(super) async fn stop_newest(app: &App, owner: &Owner, lane: &str) -> Result<bool, Refusal> {
    let newest = app
        .journal
        .latest(lane, owner.as_str())
        .await
        .map_err(Rejected::from)?;
    let Some(id) = newest else { return Ok(false) };
    match app.journal.stop(id, owner.as_str()).await {
        Ok(stopped) => Ok(stopped),
        // It was dropped in between.
        Err(StopError::Unknown(_)) => Ok(false),
        Err(error) => Err(refused(id, error)),
    }
}

/// What a turn fails with that cannot use its session.
fn forgotten(error: SessionError) -> BoxError {
    match error {
        SessionError::Unknown => no_session().into(),
        other => other.into(),
    }
}

/// What is said of a session that is not there.
pub(super) fn no_session() -> Failure {
    Failure::new(
        FailureKind::NotFound,
        "There is no such session; it may have been forgotten.",
    )
    .permanent()
}

/// The whole turn, for a response that does not stream. Nothing was sent yet, so a failure is an HTTP status, however late it came.
pub(super) async fn collect(turn: Turn) -> Result<Collected, Refusal> {
    let collected = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    if matches!(collected.end.status, Status::Failed(_)) {
        return Ok(collected.into_result()?);
    }
    Ok(collected)
}
