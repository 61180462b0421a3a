//! Questions as the orchestrator asks them, and their answers through the turn's handle.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::open::{
    APPROVAL, AnswerError, AnswerOutcome, AnswerSource, MAX_ANSWER_BYTES, OpenError, OpenQuestion, TEXT,
};
use crate::event::{
    AuthorizationCompleted, AuthorizationOutcome, AuthorizationRequired, Event, InputRequested, InputResolved,
};
use crate::json;
use crate::turn::handle::TurnHandle;
use crate::turn::id::TurnId;
use crate::turn::sink::{SendError, Sink, TrySendError};

/// The maximum length of a question's event in bytes of JSON, with its options: a few pages of
/// text. It is far below every wire's limit for an event, so a question that is asked is also
/// shown.
const MAX_ASK_BYTES: usize = 16 * 1024;
/// The maximum length of an ID that the application chooses, in bytes. Generated IDs are shorter.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// The default options of an approval.
const VERDICTS: [&str; 2] = ["Approve", "Reject"];
/// The `kind` of a question of [`Sink::authorize`].
const AUTHORIZATION: &str = "authorization";
/// The default time for an answer: half of the default time limit of a turn, so that there is time
/// left to continue without the answer.
const WITHIN: Duration = Duration::from_secs(300);
/// The reason of a failed authorization for which the orchestrator stopped request.
const WITHDRAWN: &str = "withdrawn";

/// A question to a human, asked with [`Sink::ask`].
///
/// If the question has options, the answer is one of them, as a JSON string. The options of a
/// [`text`](Self::text) are only suggestions, and an answer may have up to 16 KiB of JSON.
///
/// ```
/// use std::time::Duration;
///
/// use ragwire::turn::Ask;
///
/// let ask = Ask::choice("Which year?")
///     .options(["2023", "2024"])
///     .within(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a question is asked with `Sink::ask`"]
pub struct Ask {
    kind: String,
    prompt: String,
    options: Vec<String>,
    request_id: Option<String>,
    within: Duration,
    shown_elsewhere: bool,
}

impl Ask {
    /// The maximum length of an answer in bytes of JSON: 16 KiB.
    pub const MAX_ANSWER_BYTES: usize = MAX_ANSWER_BYTES;

    /// Asks for permission: `Approve` or `Reject`, unless [`options`](Self::options) sets other
    /// words. The first option approves and the last one rejects, for readers that offer only these
    /// two ([`OpenQuestion::verdict`]).
    pub fn approval(prompt: impl Into<String>) -> Self {
        Self::new(APPROVAL, prompt).options(VERDICTS)
    }

    /// Asks to choose one of the [`options`](Self::options).
    pub fn choice(prompt: impl Into<String>) -> Self {
        Self::new("choice", prompt)
    }

    /// Asks for a free text.
    pub fn text(prompt: impl Into<String>) -> Self {
        Self::new(TEXT, prompt)
    }

    /// Asks a question of a kind that the application defines and its readers can show.
    pub fn new(kind: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            prompt: prompt.into(),
            options: Vec::new(),
            request_id: None,
            within: WITHIN,
            shown_elsewhere: false,
        }
    }

    /// Sets the answers to choose from.
    pub fn options(mut self, options: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options = options.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the ID that names the question in its answer. The default is 128 random bits, written
    /// as 32 hexadecimal digits.
    ///
    /// An ID has 1 to 128 bytes without control characters and names one question per turn.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Asks even if the reader's wire does not show the question before the end of the turn
    /// ([`AskError::Unseen`]): the application shows it by other means, from
    /// [`TurnHandle::open_questions`].
    pub fn shown_elsewhere(mut self) -> Self {
        self.shown_elsewhere = true;
        self
    }

    /// Sets how long the question waits for its answer after it was sent. Default: 5 minutes.
    ///
    /// While the question waits, the turn's idle limit does not count, but its total limit
    /// ([`Timeouts::total`](crate::Timeouts::total)) does.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// A request for the user's consent, given on another page. Asked with [`Sink::authorize`].
#[derive(Clone, Debug)]
#[must_use = "consent is requested with `Sink::authorize`"]
pub struct Authorize {
    connection: String,
    auth_url: String,
    description: Option<String>,
    request_id: Option<String>,
    within: Duration,
    shown_elsewhere: bool,
}

impl Authorize {
    /// Requests consent to `connection`, given at `auth_url`. The URL is shown to the user
    /// unchanged.
    pub fn new(connection: impl Into<String>, auth_url: impl Into<String>) -> Self {
        Self {
            connection: connection.into(),
            auth_url: auth_url.into(),
            description: None,
            request_id: None,
            within: WITHIN,
            shown_elsewhere: false,
        }
    }

    /// Sets the purpose of the consent, which the user sees.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the ID of the request, as [`Ask::request_id`] does. Use for example the `state` of an
    /// OAuth request, by which its callback finds the question.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Asks even if the reader's wire does not show it, as [`Ask::shown_elsewhere`] does.
    pub fn shown_elsewhere(mut self) -> Self {
        self.shown_elsewhere = true;
        self
    }

    /// Sets how long the request waits, as [`Ask::within`] does.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The ID is empty, too long or contains a control character. The question was not asked.
    #[error("request ID must have 1 to {MAX_REQUEST_ID_BYTES} bytes and no control characters")]
    RequestId,
    /// The ID names another question of this turn, open or closed. The question was not asked.
    #[error("request ID already names another question of this turn")]
    InUse,
    /// The turn already has 16 open questions. The question was not asked.
    #[error("too many open questions")]
    TooMany,
    /// The event of the question has more than 16 KiB of JSON. The question was not asked.
    #[error("question has more than {MAX_ASK_BYTES} bytes")]
    TooLarge,
    /// The reader's wire does not show the question in time: it writes events only before the
    /// answer, or only with the end ([`Framed`](crate::Framed) after the first text, for example).
    /// Use [`Ask::shown_elsewhere`] if the application shows it by other means. A turn with a
    /// journal may have readers on any wire and never gets this error.
    #[error("question is not shown before the end of the turn")]
    Unseen,
    /// The question was not answered in time.
    #[error("question was not answered in time")]
    Expired,
    /// The turn has ended.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl AskError {
    /// Returns a stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::RequestId => "ask_request_id",
            Self::InUse => "ask_in_use",
            Self::TooMany => "ask_too_many",
            Self::TooLarge => "ask_too_large",
            Self::Unseen => "ask_unseen",
            Self::Expired => "ask_expired",
            Self::Send(error) => error.code(),
        }
    }
}

impl From<OpenError> for AskError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::InUse => Self::InUse,
            OpenError::TooMany => Self::TooMany,
        }
    }
}

impl Sink {
    /// Asks a human and waits for the answer: the reader gets `input_requested`, the application
    /// answers through the turn's [`TurnHandle`], and the reader gets `input_resolved` with the
    /// answer.
    ///
    /// A question begins the response whatever the [`Commit`](crate::Commit) policy is, because
    /// nobody can answer a question that is not shown. For the same reason ask before the first
    /// text if the wire writes its events before the answer. After the first text such a reader
    /// does not see the question, and this function returns [`AskError::Unseen`] at once.
    ///
    /// Some wires end their stream at a question and take the answer with the next request
    /// (`AiSdk::parks`, `AgUi::parks`, `Eve::parks`). Such a turn needs a
    /// [`Journal`](crate::turn::Journal) and continues without a reader while the question waits.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::turn::{AnswerOutcome, Ask, AskError};
    /// use ragwire::{Metadata, Sink, Turn};
    ///
    /// async fn tidy(sink: Sink) -> Result<Metadata, AskError> {
    ///     let answer = sink.ask(Ask::approval("Delete 3 files?").request_id("delete")).await?;
    ///     sink.send(if answer == "Approve" { "Deleted." } else { "Left alone." }).await?;
    ///     Ok(Metadata::default())
    /// }
    ///
    /// let turn = Turn::start(tidy).commit().await?;
    /// assert_eq!(turn.handle().open_questions()[0].prompt, "Delete 3 files?");
    /// assert_eq!(turn.handle().answer("delete", "Approve"), Ok(AnswerOutcome::Accepted));
    /// assert_eq!(turn.collect().await?.text, "Deleted.");
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the question: a later answer gets [`AnswerError::Late`], and
    /// the reader gets `input_resolved` without a response if the queue has room for it. An answer
    /// that was accepted just before is lost.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`], also if an answer was accepted but the turn ended before the reader
    /// got it. An answer that is too long for the wire is left out of the stream and counted in
    /// `events_dropped`. After [`AskError::Expired`] the reader has got `input_resolved` without a
    /// response.
    pub async fn ask(&self, ask: Ask) -> Result<Value, AskError> {
        let request_id = request_id(ask.request_id)?;
        let mut question = InputRequested::new(&request_id, &ask.kind, &ask.prompt);
        if !ask.options.is_empty() {
            question = question.options(ask.options.clone());
        }
        let unanswered = InputResolved::new(&request_id);
        let resolved = unanswered.clone();
        let request = Request {
            open_question: OpenQuestion {
                request_id,
                kind: ask.kind,
                prompt: ask.prompt,
                options: ask.options,
            },
            authorization: false,
            question: question.into(),
            withdrawn: unanswered.into(),
            within: ask.within,
            shown_elsewhere: ask.shown_elsewhere,
        };
        let answer = self
            .wait(request, |answer| match answer {
                Some(answer) => resolved.response(answer.clone()).into(),
                None => resolved.into(),
            })
            .await?;
        answer.ok_or(AskError::Expired)
    }

    /// Requests the user's consent and waits for the outcome: the reader gets
    /// `authorization_required`, the program that receives the consent reports it with
    /// [`TurnHandle::authorized`], and the reader gets `authorization_completed`.
    ///
    /// The outcome is [`AuthorizationOutcome::TimedOut`] if none is reported in time. Everything
    /// else works as for [`ask`](Self::ask).
    ///
    /// # Cancel safety
    ///
    /// As for [`ask`](Self::ask), but the reader gets `authorization_completed` with the outcome
    /// `failed` if the queue has room for it.
    ///
    /// # Errors
    ///
    /// Returns [`AskError`], but never [`AskError::Expired`].
    pub async fn authorize(&self, authorize: Authorize) -> Result<AuthorizationOutcome, AskError> {
        let request_id = request_id(authorize.request_id)?;
        let connection = authorize.connection;
        let mut required =
            AuthorizationRequired::new(&connection, authorize.auth_url).request_id(&request_id);
        required.description = authorize.description;
        let completed = {
            let (connection, request_id) = (connection.clone(), request_id.clone());
            move |outcome| AuthorizationCompleted::new(connection, outcome).request_id(request_id)
        };
        let withdrawn = completed.clone()(AuthorizationOutcome::Failed).reason(WITHDRAWN);
        let request = Request {
            open_question: OpenQuestion {
                request_id,
                kind: AUTHORIZATION.into(),
                prompt: connection,
                // A human may only decline here; that consent was given has to be verified.
                options: vec![AuthorizationOutcome::Declined.as_str().into()],
            },
            authorization: true,
            question: required.into(),
            withdrawn: withdrawn.into(),
            within: authorize.within,
            shown_elsewhere: authorize.shown_elsewhere,
        };
        let answer = self
            .wait(request, |answer| completed(outcome(answer)).into())
            .await?;
        Ok(outcome(answer.as_ref()))
    }

    /// Sends the question, waits, and sends how it was resolved. Returns `None` if time is up.
    async fn wait(
        &self,
        request: Request,
        resolved: impl FnOnce(Option<&Value>) -> Event,
    ) -> Result<Option<Value>, AskError> {
        if !json::length(&request.question).is_ok_and(|bytes| bytes <= MAX_ASK_BYTES) {
            return Err(AskError::TooLarge);
        }
        let id = request.open_question.request_id.clone();
        // A question that is dropped on the way is never answered, so the drop policy does not
        // apply.
        let sink = self.clone().drop_when_full(std::iter::empty::<String>());
        if !request.shown_elsewhere && sink.queue().hides_events() {
            return Err(AskError::Unseen);
        }
        // Opened before it is sent, because the answer may arrive at once.
        sink.queue()
            .questions
            .open(request.open_question, request.authorization)?;
        let mut open = Withdraw {
            sink,
            id,
            withdrawn: None,
            is_closed: false,
        };
        // From here on, dropping this future withdraws a question that the reader has.
        open.sink.queue_event(request.question).await?;
        open.withdrawn = Some(request.withdrawn);
        let answered = poll_fn(|cx| {
            let queue = open.sink.queue();
            if !request.shown_elsewhere && queue.questions.is_hidden(&open.id) {
                return Poll::Ready(Err(AskError::Unseen));
            }
            if queue.questions.poll_answered(&open.id, cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            queue
                .poll_closed(cx)
                .map(|closed| Err(SendError::from(closed).into()))
        });
        if let Ok(Err(error)) = timeout(request.within, answered).await {
            return Err(error);
        }
        // Also when time is up: an answer may have been accepted in the same moment.
        let answer = open.close();
        match open.sink.send(resolved(answer.as_ref())).await {
            // The orchestrator gets an answer that is too long for the wire.
            Err(SendError::Invalid(_)) => open.sink.queue().count_dropped(),
            sent => sent?,
        }
        Ok(answer)
    }
}

/// A question with the events that report it.
struct Request {
    open_question: OpenQuestion,
    authorization: bool,
    question: Event,
    withdrawn: Event,
    within: Duration,
    shown_elsewhere: bool,
}

/// Withdraws an open question when it is dropped.
struct Withdraw {
    sink: Sink,
    id: String,
    /// The event that reports it, set once the reader has the question.
    withdrawn: Option<Event>,
    is_closed: bool,
}

impl Withdraw {
    fn close(&mut self) -> Option<Value> {
        self.is_closed = true;
        let queue = self.sink.queue();
        // The time until now does not count as idle.
        queue.activity(Instant::now().into_std());
        queue.questions.close(&self.id)
    }
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        self.close();
        let Some(withdrawn) = self.withdrawn.take() else {
            return;
        };
        if matches!(self.sink.try_send(withdrawn), Err(TrySendError::Full)) {
            self.sink.queue().count_dropped();
        }
    }
}

fn request_id(chosen: Option<String>) -> Result<String, AskError> {
    match chosen {
        None => Ok(TurnId::random().to_string()),
        Some(id) if id.is_empty() || id.len() > MAX_REQUEST_ID_BYTES || id.chars().any(char::is_control) => {
            Err(AskError::RequestId)
        }
        Some(id) => Ok(id),
    }
}

/// Reads the outcome from the answer to an authorization. No answer means that time is up.
fn outcome(answer: Option<&Value>) -> AuthorizationOutcome {
    use AuthorizationOutcome::{Authorized, Declined, Failed, TimedOut};
    let Some(answer) = answer else { return TimedOut };
    [Authorized, Declined, TimedOut]
        .into_iter()
        .find(|outcome| answer == outcome.as_str())
        .unwrap_or(Failed)
}

impl From<&InputRequested> for OpenQuestion {
    fn from(question: &InputRequested) -> Self {
        Self {
            request_id: question.request_id.clone(),
            kind: question.kind.clone(),
            prompt: question.prompt.clone(),
            options: question.options.clone().unwrap_or_default(),
        }
    }
}

impl TurnHandle {
    /// Answers an open question of the turn. The first valid answer is accepted; repeating it
    /// changes nothing.
    ///
    /// Check ownership before you call this: knowing an ID does not grant access. To an
    /// authorization a human can only answer `"declined"`; its real outcome is reported with
    /// [`authorized`](Self::authorized).
    ///
    /// # Errors
    ///
    /// Returns [`AnswerError`] if the answer was not accepted; nothing has changed then. With the
    /// feature `http` it has an HTTP status.
    pub fn answer(&self, request_id: &str, answer: impl Into<Value>) -> Result<AnswerOutcome, AnswerError> {
        self.accept(request_id, answer.into(), AnswerSource::Human)
    }

    /// Reports the outcome of an authorization. The program that receives the user's consent calls
    /// it, for example an OAuth callback.
    ///
    /// # Errors
    ///
    /// Returns [`AnswerError`], also if the question is not an authorization. Nothing has changed
    /// then.
    pub fn authorized(
        &self,
        request_id: &str,
        outcome: AuthorizationOutcome,
    ) -> Result<AnswerOutcome, AnswerError> {
        self.accept(request_id, outcome.as_str().into(), AnswerSource::Program)
    }

    /// Returns the open questions in the order in which they were asked. Empty once the turn has
    /// ended.
    pub fn open_questions(&self) -> Vec<OpenQuestion> {
        if self.queue.closed().is_some() {
            return Vec::new();
        }
        self.queue.questions.list()
    }

    /// Returns whether the question would accept an answer, or `None` if the turn has ended.
    pub(in crate::turn) fn waits_for(&self, request_id: &str) -> Option<bool> {
        let runs = self.queue.closed().is_none();
        runs.then(|| self.queue.questions.accepts(request_id))
    }

    pub(in crate::turn) fn accept(
        &self,
        request_id: &str,
        answer: Value,
        source: AnswerSource,
    ) -> Result<AnswerOutcome, AnswerError> {
        // If the turn ends between these two lines, the answer counts as given before the end.
        let is_finished = self.queue.closed().is_some();
        self.queue
            .questions
            .answer(request_id, answer, source, is_finished)
    }
}
