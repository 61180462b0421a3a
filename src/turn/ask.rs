//! Human in the loop: the orchestrator asks and waits, and somebody answers through the turn's handle.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::asks::{APPROVAL, AnswerError, Answered, By, MAX_ANSWER_BYTES, OpenAsk, TEXT, Unasked};
use super::{SendError, Sink, TurnHandle, TurnId};
use crate::event::{
    AuthorizationCompleted, AuthorizationOutcome, AuthorizationRequired, Event, InputRequested, InputResolved,
};
use crate::json;

/// Longest question in bytes of JSON, its options and everything else in its event: a page of text. It is far below what any wire
/// takes as one event, so a question that is asked is also shown.
const MAX_ASK_BYTES: usize = 16 * 1024;
/// Longest id of the application's own, in bytes: no id that a program makes is longer.
const MAX_REQUEST_ID_BYTES: usize = 128;

/// The options of an approval that names none.
const VERDICTS: [&str; 2] = ["Approve", "Reject"];
/// The `kind` of what [`Sink::authorize`] asks.
const AUTHORIZATION: &str = "authorization";
/// Why an authorization was not given where the orchestrator stopped waiting for it.
const WITHDRAWN: &str = "withdrawn";

/// A question to a human.
///
/// Where there are options, the answer is one of them, as a JSON string; for [`text`](Self::text) they are suggestions only.
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
    /// 5 minutes: half of [`Timeouts::TOTAL`](super::Timeouts::TOTAL), so that there is time left to answer without.
    pub const WITHIN: Duration = Duration::from_secs(300);
    /// 16 KiB: the longest answer, in bytes of JSON. Some pages of text; it is remembered, and goes on the wire as one event.
    pub const MAX_ANSWER_BYTES: usize = MAX_ANSWER_BYTES;

    /// Whether something may be done: `Approve` or `Reject`, unless [`options`](Self::options) names other words. The first of them
    /// says yes and the last one no, for readers that know nothing else ([`OpenAsk::verdict`]).
    pub fn approval(prompt: impl Into<String>) -> Self {
        Self::new(APPROVAL, prompt).options(VERDICTS)
    }

    /// Which of the [`options`](Self::options) it is to be.
    pub fn choice(prompt: impl Into<String>) -> Self {
        Self::new("choice", prompt)
    }

    /// Something in the human's own words.
    pub fn text(prompt: impl Into<String>) -> Self {
        Self::new(TEXT, prompt)
    }

    /// A question of a kind of the application's own, which its readers know how to show.
    pub fn new(kind: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            prompt: prompt.into(),
            options: Vec::new(),
            request_id: None,
            within: Self::WITHIN,
            shown_elsewhere: false,
        }
    }

    /// Sets the answers to choose from.
    pub fn options(mut self, options: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.options = options.into_iter().map(Into::into).collect();
        self
    }

    /// Names the question. Unless it is called the name is 128 random bits, written as 32 hexadecimal digits.
    ///
    /// A name has 1 to 128 bytes without control characters, and is good for one question of a turn.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// Asks also where the reader's wire does not show the question before the end of the turn ([`AskError::Unseen`]): the application shows
    /// it by other means, from [`TurnHandle::asks`].
    pub fn shown_elsewhere(mut self) -> Self {
        self.shown_elsewhere = true;
        self
    }

    /// Sets how long the question waits for its answer, from when it is sent; [`WITHIN`](Self::WITHIN) unless it is called.
    ///
    /// The turn's limit on silence does not count meanwhile, the one on its whole length
    /// ([`Timeouts::total`](super::Timeouts::total)) does.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// A request for the user's consent, given on a page elsewhere.
#[derive(Clone, Debug)]
#[must_use = "consent is asked for with `Sink::authorize`"]
pub struct Authorize {
    connection: String,
    auth_url: String,
    description: Option<String>,
    request_id: Option<String>,
    within: Duration,
    shown_elsewhere: bool,
}

impl Authorize {
    /// Consent to `connection`, given at `auth_url`. The URL is shown to the user as it is.
    pub fn new(connection: impl Into<String>, auth_url: impl Into<String>) -> Self {
        Self {
            connection: connection.into(),
            auth_url: auth_url.into(),
            description: None,
            request_id: None,
            within: Ask::WITHIN,
            shown_elsewhere: false,
        }
    }

    /// Says what the consent is for.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// As [`Ask::request_id`]; the `state` of an OAuth request for example, by which its callback finds the question again.
    pub fn request_id(mut self, id: impl Into<String>) -> Self {
        self.request_id = Some(id.into());
        self
    }

    /// As [`Ask::shown_elsewhere`].
    pub fn shown_elsewhere(mut self) -> Self {
        self.shown_elsewhere = true;
        self
    }

    /// As [`Ask::within`].
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The id is empty, too long, or holds a control character. Nothing was asked.
    #[error("request id must have 1 to {MAX_REQUEST_ID_BYTES} bytes and no control characters")]
    RequestId,
    /// The id names another question of this turn, one that is over perhaps. Nothing was asked.
    #[error("request id names another question of this turn")]
    InUse,
    /// 16 questions of this turn wait already. Nothing was asked.
    #[error("too many questions wait for their answers")]
    TooMany,
    /// The question with all that belongs to it has more than 16 KiB of JSON. Nothing was asked.
    #[error("question has more than {MAX_ASK_BYTES} bytes")]
    TooLarge,
    /// The reader's wire shows events only before the answer, or none before the end ([`Framed`](crate::Framed) after the first text, for
    /// example), so nobody could answer in time; [`Ask::shown_elsewhere`] where somebody can. A turn with a journal has readers on any
    /// wire, and asks in any case.
    #[error("question is not shown before the end of the turn")]
    Unseen,
    /// Nobody answered in time.
    #[error("nobody answered in time")]
    Expired,
    /// The turn is over.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl AskError {
    /// Stable machine word for this error.
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

impl From<Unasked> for AskError {
    fn from(unasked: Unasked) -> Self {
        match unasked {
            Unasked::InUse => Self::InUse,
            Unasked::TooMany => Self::TooMany,
        }
    }
}

impl Sink {
    /// Asks a human, and waits for the answer: the reader gets `input_requested`, whoever has the turn's
    /// [`TurnHandle`] answers, and the reader gets `input_resolved` with the answer.
    ///
    /// A question begins the response whatever the [`Commit`](super::Commit) policy waits for: nobody can answer what they do not see.
    /// For the same reason ask before the first text where the wire has its events before the answer: after it such a reader does not see
    /// the question, and [`AskError::Unseen`] says so at once.
    ///
    /// Some wires end their stream at a question and take the answer with the next request (`AiSdk::parks`, `AgUi::parks`,
    /// `Eve::parks`); such a turn needs a [`Journal`](super::Journal), and goes on without a reader while the question waits.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::turn::{Answered, Ask, AskError};
    /// use ragwire::{Metadata, Sink, Turn};
    ///
    /// async fn tidy(sink: Sink) -> Result<Metadata, AskError> {
    ///     let answer = sink.ask(Ask::approval("Delete 3 files?").request_id("delete")).await?;
    ///     sink.send(if answer == "Approve" { "Deleted." } else { "Left alone." }).await?;
    ///     Ok(Metadata::default())
    /// }
    ///
    /// let turn = Turn::start(tidy).commit().await?;
    /// assert_eq!(turn.handle().asks()[0].prompt, "Delete 3 files?");
    /// assert_eq!(turn.handle().answer("delete", "Approve"), Ok(Answered::Accepted));
    /// assert_eq!(turn.collect().await?.text, "Deleted.");
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the question: a later answer is [`AnswerError::Late`], and the reader gets `input_resolved`
    /// without a response if there is room for it. An answer that was accepted just before is lost.
    ///
    /// # Errors
    ///
    /// [`AskError`]; also where an answer was accepted and the turn ended before the reader was told. An answer that is too long for
    /// the wire is not told but counted in `events_dropped`. Where nobody answered in time the reader has got `input_resolved` without a response.
    pub async fn ask(&self, ask: Ask) -> Result<Value, AskError> {
        let request_id = request_id(ask.request_id)?;
        let mut question = InputRequested::new(&request_id, &ask.kind, &ask.prompt);
        if !ask.options.is_empty() {
            question = question.options(ask.options.clone());
        }
        let unanswered = InputResolved::new(&request_id);
        let resolved = unanswered.clone();
        let waiting = Waiting {
            asked: OpenAsk {
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
            .wait(waiting, |answer| match answer {
                Some(answer) => resolved.response(answer.clone()).into(),
                None => resolved.into(),
            })
            .await?;
        answer.ok_or(AskError::Expired)
    }

    /// Asks for the user's consent, and waits until it is known how that ended: the reader gets `authorization_required`, whoever
    /// learns of the consent says so with [`TurnHandle::authorized`], and the reader gets `authorization_completed`.
    ///
    /// Where nobody says so in time the outcome is [`AuthorizationOutcome::TimedOut`]. The rest is as for [`ask`](Self::ask).
    ///
    /// # Cancel safety
    ///
    /// As [`ask`](Self::ask); the reader gets `authorization_completed` with the outcome `failed` if there is room for it.
    ///
    /// # Errors
    ///
    /// [`AskError`], but never [`AskError::Expired`].
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
        let waiting = Waiting {
            asked: OpenAsk {
                request_id,
                kind: AUTHORIZATION.into(),
                prompt: connection,
                // All that a human may say of it here: the rest has to be seen to be true.
                options: vec![AuthorizationOutcome::Declined.as_str().into()],
            },
            authorization: true,
            question: required.into(),
            withdrawn: withdrawn.into(),
            within: authorize.within,
            shown_elsewhere: authorize.shown_elsewhere,
        };
        let answer = self
            .wait(waiting, |answer| completed(outcome(answer)).into())
            .await?;
        Ok(outcome(answer.as_ref()))
    }

    /// Asks, waits, and says what came of it: the answer, or none where time is up.
    async fn wait(
        &self,
        waiting: Waiting,
        resolved: impl FnOnce(Option<&Value>) -> Event,
    ) -> Result<Option<Value>, AskError> {
        if !json::length(&waiting.question).is_ok_and(|bytes| bytes <= MAX_ASK_BYTES) {
            return Err(AskError::TooLarge);
        }
        let id = waiting.asked.request_id.clone();
        // Nobody answers what is dropped on the way, whatever the policy for other events of this name.
        let sink = self.clone().drop_when_full(std::iter::empty::<String>());
        if !waiting.shown_elsewhere && sink.queue().hides_events() {
            return Err(AskError::Unseen);
        }
        // Before it is sent: the answer may come at once.
        sink.queue().asks.open(waiting.asked, waiting.authorization)?;
        let mut open = Open {
            sink,
            id,
            withdrawn: None,
            is_closed: false,
        };
        open.sink.send(waiting.question).await?;
        open.withdrawn = Some(waiting.withdrawn);
        let answered = poll_fn(|cx| {
            let queue = open.sink.queue();
            if !waiting.shown_elsewhere && queue.asks.is_hidden(&open.id) {
                return Poll::Ready(Err(AskError::Unseen));
            }
            if queue.asks.poll_answered(&open.id, cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            queue
                .poll_closed(cx)
                .map(|closed| Err(SendError::from(closed).into()))
        });
        if let Ok(Err(error)) = timeout(waiting.within, answered).await {
            return Err(error);
        }
        // Also where time is up: an answer may have been taken in the same moment.
        let answer = open.close();
        match open.sink.send(resolved(answer.as_ref())).await {
            // An answer too long for the wire is one for the orchestrator all the same.
            Err(SendError::Invalid(_)) => open.sink.queue().count_dropped(),
            sent => sent?,
        }
        Ok(answer)
    }
}

/// What is asked, and what is said of it.
struct Waiting {
    asked: OpenAsk,
    authorization: bool,
    question: Event,
    withdrawn: Event,
    within: Duration,
    shown_elsewhere: bool,
}

/// A question that takes answers; dropping it withdraws it.
struct Open {
    sink: Sink,
    id: String,
    /// What the reader is told then, once it knows of the question.
    withdrawn: Option<Event>,
    is_closed: bool,
}

impl Open {
    fn close(&mut self) -> Option<Value> {
        self.is_closed = true;
        let queue = self.sink.queue();
        // The wait was no silence of the orchestrator's; from now on it is one.
        queue.activity(Instant::now().into_std());
        queue.asks.close(&self.id)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        self.close();
        let Some(withdrawn) = self.withdrawn.take() else {
            return;
        };
        if matches!(self.sink.try_send(withdrawn), Err(super::TrySendError::Full)) {
            self.sink.queue().count_dropped();
        }
    }
}

fn request_id(own: Option<String>) -> Result<String, AskError> {
    match own {
        // As turns are named.
        None => Ok(TurnId::random().to_string()),
        Some(id) if id.is_empty() || id.len() > MAX_REQUEST_ID_BYTES || id.chars().any(char::is_control) => {
            Err(AskError::RequestId)
        }
        Some(id) => Ok(id),
    }
}

/// What an answer to an authorization says; none is one that did not come.
fn outcome(answer: Option<&Value>) -> AuthorizationOutcome {
    use AuthorizationOutcome::{Authorized, Declined, Failed, TimedOut};
    let Some(answer) = answer else { return TimedOut };
    [Authorized, Declined, TimedOut]
        .into_iter()
        .find(|outcome| answer == outcome.as_str())
        .unwrap_or(Failed)
}

impl From<&InputRequested> for OpenAsk {
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
    /// Answers what the turn asks. The first answer that fits is taken; an equal one after it changes nothing.
    ///
    /// An id is no authority: make sure first that the turn belongs to whoever answers. Of an authorization a human may say
    /// `"declined"` only; how it really ended is for [`authorized`](Self::authorized).
    ///
    /// # Errors
    ///
    /// [`AnswerError`]; nothing has changed then. With the feature `http` it has a status.
    pub fn answer(&self, request_id: &str, answer: impl Into<Value>) -> Result<Answered, AnswerError> {
        self.take(request_id, answer.into(), By::Human)
    }

    /// Says how an authorization ended: for the program that the user's consent comes back to, such as an OAuth callback.
    ///
    /// # Errors
    ///
    /// [`AnswerError`], also where the question is no authorization; nothing has changed then.
    pub fn authorized(
        &self,
        request_id: &str,
        outcome: AuthorizationOutcome,
    ) -> Result<Answered, AnswerError> {
        self.take(request_id, outcome.as_str().into(), By::Program)
    }

    /// What the turn asks now, in the order in which it was asked; nothing once it is over.
    pub fn asks(&self) -> Vec<OpenAsk> {
        if self.queue.closed().is_some() {
            return Vec::new();
        }
        self.queue.asks.list()
    }

    /// Whether an answer to that question would be taken; `None` where the turn is over.
    pub(super) fn waits_for(&self, request_id: &str) -> Option<bool> {
        let runs = self.queue.closed().is_none();
        runs.then(|| self.queue.asks.takes(request_id))
    }

    pub(super) fn take(&self, request_id: &str, answer: Value, by: By) -> Result<Answered, AnswerError> {
        // An end that comes between the two looks as if it had come after both.
        let over = self.queue.closed().is_some();
        self.queue.asks.answer(request_id, answer, by, over)
    }
}
