//! Starts turns for the routes of all wires.
//!
//! A route describes the question in a [`TurnRequest`] and its client in a [`Reader`], and gets a
//! committed turn from [`start`]. The route itself decides on the wire and on the form of a
//! [`Refusal`].

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use ragwire::event::Mode;
use ragwire::orchestrator::FILTER;
use ragwire::session::{Message, Role, Session, SessionError, Sessions};
use ragwire::turn::{BoxError, Collected, Disconnect, Ending, StopError, TurnBuilder, TurnId};
use ragwire::{Commit, Metadata, Orchestrator, Question, Rejected, Status, Turn};
use serde_json::Value;

use crate::lane::Lane;
use crate::owner::Owner;
use crate::records::{TurnRecord, TurnRecords};
use crate::refusal::{Refusal, unknown_session};
use crate::request::invalid;
use crate::shared::Shared;

/// A question with everything that its turn needs.
pub(crate) struct TurnRequest {
    /// The question. [`start`] sets its owner, the headers and the messages of a stored conversation.
    pub(crate) question: Question,
    /// Where the earlier messages come from.
    pub(crate) conversation: Conversation,
    /// The chat that the client stores. A new question there stops the turn that is still running,
    /// because the page that asked it has moved on.
    pub(crate) chat: Option<String>,
    /// When the response begins.
    pub(crate) commit: Commit,
    /// Whether the metadata has the form of ADR 0007, with its mode also if the turn fails before
    /// the orchestrator can report one.
    pub(crate) adr: bool,
    /// Answers in place of the orchestrator of the endpoints.
    pub(crate) orchestrator: Option<Arc<dyn Orchestrator>>,
    /// Changes the session at the end of the turn, together with the answer.
    pub(crate) on_end: Option<OnEnd>,
}

/// A change of a session at the end of a turn.
pub(crate) type OnEnd = fn(&mut Session, &Ending);

/// The client of a turn, and what its disconnect means.
///
/// Every streamed turn is recorded in the journal, so that its reader can reconnect, others can
/// read it too, and it can be stopped and answered by its id. What happens to it without a reader
/// depends on what the clients of the route do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Gets the answer in one piece or never learns the turn's id. The turn is not recorded and
    /// ends with its connection.
    Whole,
    /// Disconnects in order to stop, or cannot reconnect. The turn ends with its connection.
    Leaving,
    /// Can reconnect. The turn continues for the disconnect grace.
    Returning,
    /// Does not affect the turn, which runs to its end.
    Absent,
}

/// Where the earlier messages of a conversation come from, and whether this turn is added to it.
#[derive(Debug)]
pub(crate) enum Conversation {
    /// The client sent them with the question and stores them itself, or there are none.
    None,
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
    pub(crate) fn new(question: Question) -> Self {
        Self {
            question,
            conversation: Conversation::None,
            chat: None,
            commit: Commit::default(),
            adr: false,
            orchestrator: None,
            on_end: None,
        }
    }

    /// Sets the conversation.
    pub(crate) fn conversation(mut self, conversation: Conversation) -> Self {
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
    /// The record of its turns; `None` in the name space of another route.
    records: Option<TurnRecords>,
    owner: String,
    id: String,
    /// Whether the session is created if it does not exist.
    creates: bool,
    /// The question, once it is stored, so that the answer may follow it.
    question: Arc<OnceLock<String>>,
}

impl TurnSession {
    fn new(shared: &Shared, owner: &str, id: String, creates: bool) -> Self {
        Self {
            sessions: shared.sessions.clone(),
            owner: owner.to_owned(),
            id,
            creates,
            records: Some(shared.records.clone()),
            question: Arc::default(),
        }
    }

    /// Stores the question. Returns the earlier messages, and the session with the question.
    async fn question(&self, prompt: &str) -> Result<(Vec<Message>, Session), SessionError> {
        let messages = self.messages().await?;
        Ok((messages, self.append_question(prompt).await?))
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
        let _ = self.question.set(prompt.to_owned());
        Ok(session)
    }

    /// Stores the answer and the record of the turn, unless the turn never left the waiting list.
    async fn append_answer(&self, ending: Ending, on_end: Option<OnEnd>) {
        let question = self.question.get();
        let answer = question.map_or_else(String::new, |_| ending.answer());
        if question.is_none() && on_end.is_none() {
            return;
        }
        let change = |session: &mut Session| {
            if !answer.is_empty() {
                session.push(Role::Assistant, answer.as_str());
            }
            if let Some(on_end) = on_end {
                on_end(session, &ending);
            }
            Ok::<_, SessionError>(())
        };
        let mut stored = self.sessions.update(&self.owner, &self.id, change).await;
        if matches!(stored, Err(SessionError::StateTooLarge { .. })) && !answer.is_empty() {
            // The answer is worth more than what a route keeps beside it.
            let only_answer = |session: &mut Session| {
                session.push(Role::Assistant, answer.as_str());
                Ok(())
            };
            stored = self.sessions.update(&self.owner, &self.id, only_answer).await;
        }
        if let (Ok((session, ())), Some(question), Some(records)) = (&stored, question, &self.records)
            && session.state.is_null()
        {
            let record = TurnRecord::new(&self.id, question, &ending);
            if let Err(error) = records.add(&self.owner, record).await {
                tracing::error!(error = &error as &dyn std::error::Error, "cannot record a turn");
            }
        }
        match stored {
            // An unknown session was deleted or has expired in the meantime.
            Ok(_) | Err(SessionError::Unknown) => {}
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot store an answer in its session"
            ),
        }
    }
}

/// Starts the turn and waits until its response begins.
pub(crate) async fn start(
    shared: &Shared,
    owner: &Owner,
    reader: Reader,
    request: impl Into<TurnRequest>,
) -> Result<Turn, Refusal> {
    start_in_session(shared, owner, reader, request.into(), |_| ()).await
}

/// Does the same as [`start`], and passes the session to `on_question` once it contains the
/// question and before the question is answered.
pub(crate) async fn start_in_session<F>(
    shared: &Shared,
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
        commit,
        adr,
        orchestrator,
        on_end,
    } = request;
    check_prompt(shared, &question.prompt)?;
    check_instructions(shared, question.options.instructions.as_deref())?;
    check_filter(shared, question.options.extra.get(FILTER))?;
    owner.as_str().clone_into(&mut question.owner);
    question.options.headers = owner.headers().clone();

    let mut builder = builder(shared, owner, reader).commit_on(commit);
    let mode = adr.then(|| shared.mode.clone());
    // A turn that fails before the orchestrator can report its mode has the one that was asked for.
    if let Some(mode) = mode.as_deref().or_else(|| question.mode.map(Mode::as_str)) {
        builder = builder.mode(mode);
    }
    if let Some(chat) = &chat {
        let lane = Lane::chat(owner, chat);
        stop_newest(shared, owner, &lane).await?;
        builder = builder.lane(lane);
    }
    if let Conversation::Session(id) | Conversation::ExistingSession(id) = &conversation {
        builder = builder.lane(Lane::session(owner, id));
    }
    let session = match conversation {
        Conversation::None => {
            let messages = std::mem::take(&mut question.history);
            question.history = shared.sessions.limits().newest(messages);
            None
        }
        Conversation::Session(id) => Some(TurnSession::new(shared, owner.as_str(), id, true)),
        Conversation::ExistingSession(id) => Some(TurnSession::new(shared, owner.as_str(), id, false)),
        Conversation::Space { owner, id } => Some(TurnSession {
            records: None,
            ..TurnSession::new(shared, &owner, id, false)
        }),
    };
    if let Some(session) = session.clone() {
        builder = builder.before_end(move |ending: Ending| async move {
            session.append_answer(ending, on_end).await;
        });
    }

    let orchestrator = orchestrator.unwrap_or_else(|| Arc::clone(&shared.orchestrator));
    let pending = builder.start(|sink| async move {
        // The turn has left the waiting list, so the answers that it waited for are in the session.
        if let Some(session) = session {
            match session.question(&question.prompt).await {
                Ok((messages, stored)) => {
                    question.history = messages;
                    on_question(stored);
                }
                // An answer needs no memory, and is worth more than a failure.
                Err(SessionError::NoSpace) if session.records.is_some() => {
                    tracing::warn!(
                        "the disk is full: a question of a session is answered without its memory"
                    );
                }
                Err(error) => return Err(session_error(error)),
            }
        }
        let metadata = orchestrator.answer(question, sink).await?;
        Ok::<_, BoxError>(match mode {
            Some(mode) => adr_metadata(metadata, mode),
            None => metadata,
        })
    });
    Ok(pending.commit().await?.pad_to(shared.limits.pad_to))
}

fn check_prompt(shared: &Shared, prompt: &str) -> Result<(), Refusal> {
    let max_bytes = shared.limits.max_question_bytes;
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

fn check_instructions(shared: &Shared, instructions: Option<&str>) -> Result<(), Refusal> {
    let max_bytes = shared.limits.max_question_bytes;
    if instructions.is_some_and(|instructions| instructions.len() > max_bytes) {
        return Err(invalid(format!(
            "The system messages are longer than {max_bytes} bytes of UTF-8."
        )));
    }
    Ok(())
}

fn check_filter(shared: &Shared, filter: Option<&Value>) -> Result<(), Refusal> {
    let checked = filter.and_then(|filter| shared.orchestrator.check_filter(filter));
    checked
        .unwrap_or(Ok(()))
        .map_err(|message| Refusal::permanent(StatusCode::UNPROCESSABLE_ENTITY, "bad_filter", message))
}

/// Creates a builder with the owner, the journal and the time-outs. Without a lane the turn waits
/// for no other turn of its owner: a user may ask in several sessions at a time.
fn builder(shared: &Shared, owner: &Owner, reader: Reader) -> TurnBuilder {
    let mut builder = Turn::builder()
        .group(&shared.turns)
        .timeouts(shared.timeouts)
        .no_lane();
    if let Some(name) = owner.name() {
        builder = builder.owner(name);
    }
    if let Some(client) = owner.client() {
        builder = builder.client(client);
    }
    if let Some(observer) = &shared.observer {
        builder = builder.observer(Arc::clone(observer));
    }
    let disconnect = match reader {
        Reader::Whole => return builder,
        Reader::Leaving => Disconnect::cancel(),
        Reader::Returning => shared.grace(),
        Reader::Absent => Disconnect::run_to_end(),
    };
    builder.journal(&shared.journal).on_disconnect(disconnect)
}

/// Returns the newest turn of a lane that the journal still has.
pub(crate) async fn newest(shared: &Shared, owner: &Owner, lane: &Lane) -> Result<Option<TurnId>, Refusal> {
    let newest = shared.journal.latest(lane.as_str(), owner.as_str()).await;
    Ok(newest.map_err(Rejected::from)?)
}

/// Stops the newest turn of a lane. Returns `false` if none is running.
pub(crate) async fn stop_newest(shared: &Shared, owner: &Owner, lane: &Lane) -> Result<bool, Refusal> {
    let Some(id) = newest(shared, owner, lane).await? else {
        return Ok(false);
    };
    match shared.journal.stop(id, owner.as_str()).await {
        Ok(stopped) => Ok(stopped),
        // The journal dropped it in between.
        Err(StopError::Unknown(_)) => Ok(false),
        Err(error) => Err(Refusal::of_turn(id, error)),
    }
}

/// Returns the metadata in the form of the two routes of ADR 0007: citations, mode and tools. Only
/// the figures of the waiting list, which the group adds, come on top. The framed wire writes
/// citations with the members of the ADR; the event `sources` has the heading and the title of each
/// passage before the answer.
fn adr_metadata(metadata: Metadata, mode: String) -> Metadata {
    Metadata::default()
        .citations(metadata.citations)
        .mode(mode)
        .tools_used(metadata.tools_used)
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
pub(crate) async fn collect(turn: Turn) -> Result<Collected, Refusal> {
    let collected = turn.collect().await.map_err(|error| Refusal::internal(&error))?;
    match collected.end.status {
        Status::Failed(_) => Ok(collected.into_result()?),
        Status::Completed | Status::Stopped => Ok(collected),
    }
}
