//! Starts turns for the routes of all wires.
//!
//! A route describes the question in a [`TurnRequest`] and its client in a [`Reader`], and gets a
//! committed turn from [`start`]. The route itself decides on the wire and on the form of a
//! [`Refusal`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ragwire::session::{Message, Role, Session, SessionError, Sessions};
use ragwire::turn::{BoxError, Collected, Disconnect, Ending, StopError, TurnBuilder};
use ragwire::{Metadata, Rejected, Status, Turn};

use super::lane::Lane;
use super::owner::Owner;
use super::refusal::{Refusal, unknown_session};
use super::request::invalid;
use crate::app::App;
use crate::orchestrator::Question;

/// A question with everything that its turn needs.
#[derive(Debug)]
pub(super) struct TurnRequest {
    /// The question. [`start`] sets its owner and the earlier messages.
    pub(super) question: Question,
    /// Where the earlier messages come from.
    pub(super) conversation: Conversation,
    /// The chat that the client stores. A new question there stops the turn that is still running,
    /// because the page that asked it has moved on.
    pub(super) chat: Option<String>,
    /// The mode in the metadata of a turn that fails before the orchestrator can report one.
    pub(super) fallback_mode: Option<&'static str>,
    /// Converts the metadata into what the wire reports.
    pub(super) metadata: fn(Metadata) -> Metadata,
}

/// The client of a turn, and what its disconnect means.
///
/// Every streamed turn is recorded in the journal, so that its reader can reconnect, others can
/// read it too, and it can be stopped and answered by its id. What happens to it without a reader
/// depends on what the clients of the route do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Gets the answer in one piece or never learns the turn's id. The turn is not recorded and
    /// ends with its connection.
    Whole,
    /// Disconnects in order to stop, or cannot reconnect. The turn ends with its connection.
    Leaving,
    /// Can reconnect. The turn continues for `--disconnect-grace`.
    Returning,
    /// Does not affect the turn, which runs to its end.
    Absent,
}

/// Where the earlier messages of a conversation come from, and whether this turn is added to it.
#[derive(Debug)]
pub(super) enum Conversation {
    /// The question does not belong to a conversation.
    None,
    /// The client sent them, oldest first, and stores them itself.
    Provided(Vec<Message>),
    /// The session with this id, which is created if it does not exist. The turn waits for the
    /// other turns of the session.
    Session(String),
    /// The same, for a session that must exist when the turn starts.
    ExistingSession(String),
    /// A session in a name space that other routes do not use. Its route admits one turn at a time.
    Space {
        /// The owner's name in that space.
        owner: String,
        /// The session.
        id: String,
    },
}

impl TurnRequest {
    /// Creates a request without a conversation, with the defaults of every route.
    pub(super) fn new(question: Question) -> Self {
        Self {
            question,
            conversation: Conversation::None,
            chat: None,
            fallback_mode: None,
            metadata: |metadata| metadata,
        }
    }

    /// Sets the conversation.
    pub(super) fn conversation(mut self, conversation: Conversation) -> Self {
        self.conversation = conversation;
        self
    }
}

impl From<Question> for TurnRequest {
    fn from(question: Question) -> Self {
        Self::new(question)
    }
}

/// The stored session of a turn.
#[derive(Clone)]
struct TurnSession {
    sessions: Sessions,
    owner: String,
    id: String,
    /// Whether the session is created if it does not exist.
    creates: bool,
    /// Whether the question is stored, so that the answer may follow it.
    has_question: Arc<AtomicBool>,
}

impl TurnSession {
    fn new(app: &App, owner: &str, id: String, creates: bool) -> Self {
        Self {
            sessions: app.sessions.clone(),
            owner: owner.to_owned(),
            id,
            creates,
            has_question: Arc::default(),
        }
    }

    /// Returns the earlier messages.
    async fn messages(&self) -> Result<Vec<Message>, SessionError> {
        // Only `creates` may start a session: an expired one must not reappear with half of its
        // messages.
        let session = if self.creates {
            self.sessions.get_or_begin(&self.owner, &self.id).await?
        } else {
            self.sessions.get(&self.owner, &self.id).await?
        };
        Ok(session.messages)
    }

    /// Stores the question and returns the session with it.
    async fn append_question(&self, prompt: &str) -> Result<Session, SessionError> {
        let session = self
            .sessions
            .append(&self.owner, &self.id, Role::User, prompt)
            .await?;
        self.has_question.store(true, Ordering::Release);
        Ok(session)
    }

    /// Stores the answer, unless the turn never left the waiting list or was stopped before its
    /// first word.
    async fn append_answer(&self, ending: Ending) {
        let answer = ending.answer();
        if !self.has_question.load(Ordering::Acquire) || answer.is_empty() {
            return;
        }
        let stored = self
            .sessions
            .append(&self.owner, &self.id, Role::Assistant, &answer)
            .await;
        match stored {
            // An unknown session has expired in the meantime.
            Ok(_) | Err(SessionError::Unknown) => {}
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot store an answer in its session"
            ),
        }
    }
}

/// Starts the turn and waits until its response begins.
pub(super) async fn start(
    app: &App,
    owner: &Owner,
    reader: Reader,
    request: impl Into<TurnRequest>,
) -> Result<Turn, Refusal> {
    start_in_session(app, owner, reader, request.into(), |_| ()).await
}

/// Does the same as [`start`], and passes the session to `on_question` once it contains the
/// question and before the question is answered.
pub(super) async fn start_in_session<F>(
    app: &App,
    owner: &Owner,
    reader: Reader,
    request: TurnRequest,
    on_question: F,
) -> Result<Turn, Refusal>
where
    F: FnOnce(Session) + Send + 'static,
{
    let TurnRequest {
        mut question,
        conversation,
        chat,
        fallback_mode,
        metadata: convert,
    } = request;
    check_prompt(app, &question.prompt)?;
    owner.as_str().clone_into(&mut question.owner);

    let mut builder = builder(app, owner, reader);
    if let Some(mode) = fallback_mode {
        builder = builder.mode(mode);
    }
    if let Some(chat) = &chat {
        let lane = Lane::chat(owner, chat);
        stop_newest(app, owner, &lane).await?;
        builder = builder.lane(lane);
    }
    if let Conversation::Session(id) | Conversation::ExistingSession(id) = &conversation {
        builder = builder.lane(Lane::session(owner, id));
    }
    let session = match conversation {
        Conversation::None => None,
        Conversation::Provided(messages) => {
            question.earlier = app.sessions.limits().newest(messages);
            None
        }
        Conversation::Session(id) => Some(TurnSession::new(app, owner.as_str(), id, true)),
        Conversation::ExistingSession(id) => Some(TurnSession::new(app, owner.as_str(), id, false)),
        Conversation::Space { owner, id } => Some(TurnSession::new(app, &owner, id, false)),
    };
    if let Some(session) = session.clone() {
        builder = builder.before_end(move |ending: Ending| async move {
            session.append_answer(ending).await;
        });
    }

    let orchestrator = Arc::clone(&app.orchestrator);
    let pending = builder.start(|sink| async move {
        // The turn has left the waiting list, so the answers that it waited for are in the session.
        if let Some(session) = session {
            question.earlier = session.messages().await.map_err(session_error)?;
            let stored = session.append_question(&question.prompt).await;
            on_question(stored.map_err(session_error)?);
        }
        let metadata = orchestrator.answer(question, sink).await?;
        Ok::<_, BoxError>(convert(metadata))
    });
    Ok(pending.commit().await?)
}

fn check_prompt(app: &App, prompt: &str) -> Result<(), Refusal> {
    let max_bytes = *app.settings.max_question;
    if prompt.trim().is_empty() {
        return Err(invalid("The prompt is empty."));
    }
    if prompt.len() > max_bytes {
        return Err(invalid(format!(
            "The prompt is longer than {max_bytes} bytes of UTF-8."
        )));
    }
    Ok(())
}

/// Creates a builder with the owner, the journal and the time-outs. Without a lane the turn waits
/// for no other turn of its owner: a user may ask in several sessions at a time.
fn builder(app: &App, owner: &Owner, reader: Reader) -> TurnBuilder {
    let mut builder = Turn::builder()
        .group(&app.turns)
        .timeouts(app.timeouts())
        .no_lane();
    if let Some(name) = owner.name() {
        builder = builder.owner(name);
    }
    let disconnect = match reader {
        Reader::Whole => return builder,
        Reader::Leaving => Disconnect::cancel(),
        Reader::Returning => app.grace(),
        Reader::Absent => Disconnect::run_to_end(),
    };
    builder.journal(&app.journal).on_disconnect(disconnect)
}

/// Stops the newest turn of a lane. Returns `false` if none is running.
pub(super) async fn stop_newest(app: &App, owner: &Owner, lane: &Lane) -> Result<bool, Refusal> {
    let newest = app.journal.latest(lane.as_str(), owner.as_str()).await;
    let Some(id) = newest.map_err(Rejected::from)? else {
        return Ok(false);
    };
    match app.journal.stop(id, owner.as_str()).await {
        Ok(stopped) => Ok(stopped),
        // The journal dropped it in between.
        Err(StopError::Unknown(_)) => Ok(false),
        Err(error) => Err(Refusal::of_turn(id, error)),
    }
}

/// Returns the failure of a turn that cannot use its session.
fn session_error(error: SessionError) -> BoxError {
    match error {
        SessionError::Unknown => unknown_session().into(),
        other => other.into(),
    }
}

/// Collects the whole turn for a response that does not stream. No byte has been sent yet, so a
/// failure becomes an HTTP status, however late it happens.
pub(super) async fn collect(turn: Turn) -> Result<Collected, Refusal> {
    let collected = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    match collected.end.status {
        Status::Failed(_) => Ok(collected.into_result()?),
        Status::Completed | Status::Stopped => Ok(collected),
    }
}
