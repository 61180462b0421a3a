//! Questions that an orchestrator asks humans: the turn asks them, and their answers return to the
//! orchestrator.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ragwire::Sink;
use ragwire::event::{AuthorizationCompleted, AuthorizationRequired, Event, InputRequested, InputResolved};
use ragwire::turn::{Ask, AskError, Authorize};
use serde::Serialize;
use serde_json::Value;

use super::error::GatewayError;

/// How long a question waits for its answer: the orchestrator decides, by resolving its question,
/// and the turn's time limit applies in any case.
const WITHIN: Duration = Duration::from_secs(24 * 3600);

/// A human's answer on its way to the orchestrator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct HumanAnswer {
    /// The question.
    pub(super) request_id: String,
    /// The answer; `null` if there will be none.
    pub(super) response: Value,
    /// Why there is no answer: a code of `AskError`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'static str>,
}

/// Delivers answers to the orchestrator of one turn.
pub(super) trait Channel: Send {
    /// Delivers one answer.
    fn deliver(&self, answer: HumanAnswer) -> Delivery;
}

/// The future of one delivery.
pub(super) type Delivery = Pin<Box<dyn Future<Output = Result<(), GatewayError>> + Send>>;

type Waiting = Pin<Box<dyn Future<Output = Result<Value, AskError>> + Send>>;

/// A question that waits for its human.
struct Open {
    request_id: String,
    waiting: Waiting,
    /// The orchestrator knows the outcome from elsewhere and needs no answer.
    is_known: bool,
}

/// The open questions of one answer. The turn limits their number.
pub(super) struct Humans<C> {
    sink: Sink,
    channel: C,
    open: Vec<Open>,
    deliveries: Vec<Delivery>,
}

impl<C: Channel> Humans<C> {
    pub(super) fn new(sink: Sink, channel: C) -> Self {
        Self {
            sink,
            channel,
            open: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    /// Returns `true` while the turn waits for a human, so that the orchestrator may be silent.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns `true` if every question has its answer and every answer was delivered.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.deliveries.is_empty()
    }

    /// Takes an event about a question. Others are not passed to it.
    pub(super) fn take(&mut self, event: Event, cx: &mut Context<'_>) {
        if let Event::InputRequested(question) = event {
            self.ask(question, cx);
        } else if let Event::AuthorizationRequired(required) = event {
            self.authorize(required, cx);
        } else if let Event::InputResolved(resolved) = event {
            self.settle_answer(&resolved);
        } else if let Event::AuthorizationCompleted(completed) = event {
            self.settle_consent(&completed);
        }
    }

    fn ask(&mut self, question: InputRequested, cx: &mut Context<'_>) {
        let mut ask = Ask::new(question.kind, question.prompt)
            .request_id(question.request_id.clone())
            .within(WITHIN);
        if let Some(options) = question.options {
            ask = ask.options(options);
        }
        let sink = self.sink.clone();
        let waiting = Box::pin(async move { sink.ask(ask).await });
        self.wait(question.request_id, waiting, cx);
    }

    fn authorize(&mut self, required: AuthorizationRequired, cx: &mut Context<'_>) {
        let request_id = required.request_id.unwrap_or_default();
        let mut authorize = Authorize::new(required.connection, required.auth_url)
            .request_id(request_id.clone())
            .within(WITHIN);
        if let Some(description) = required.description {
            authorize = authorize.description(description);
        }
        let sink = self.sink.clone();
        let waiting = Box::pin(async move {
            let outcome = sink.authorize(authorize).await?;
            Ok(outcome.as_str().into())
        });
        self.wait(request_id, waiting, cx);
    }

    fn wait(&mut self, request_id: String, mut waiting: Waiting, cx: &mut Context<'_>) {
        // Polled at once, so that the question precedes the frames after it.
        match waiting.as_mut().poll(cx) {
            Poll::Ready(answer) => self.resolve(request_id, false, answer),
            Poll::Pending => self.open.push(Open {
                request_id,
                waiting,
                is_known: false,
            }),
        }
    }

    /// The orchestrator reports the answer to its own question.
    fn settle_answer(&mut self, resolved: &InputResolved) {
        let Some(at) = self.position(&resolved.request_id) else {
            return;
        };
        self.open[at].is_known = true;
        let answer = resolved.response.clone();
        let is_answered = answer.is_some_and(|answer| {
            let handle = self.sink.handle();
            handle.answer(&resolved.request_id, answer).is_ok()
        });
        if !is_answered {
            // Dropping withdraws the question, and the reader gets to know.
            drop(self.open.remove(at));
        }
    }

    /// The orchestrator reports the outcome of its own request for consent.
    fn settle_consent(&mut self, completed: &AuthorizationCompleted) {
        let request_id = completed.request_id.as_deref().unwrap_or_default();
        let Some(at) = self.position(request_id) else {
            return;
        };
        self.open[at].is_known = true;
        let handle = self.sink.handle();
        if handle.authorized(request_id, completed.outcome).is_err() {
            drop(self.open.remove(at));
        }
    }

    fn position(&self, request_id: &str) -> Option<usize> {
        self.open.iter().position(|open| open.request_id == request_id)
    }

    fn resolve(&mut self, request_id: String, is_known: bool, answer: Result<Value, AskError>) {
        let (response, error) = match answer {
            // The turn has ended, and its orchestrator is about to be dropped.
            Err(AskError::Send(_)) => return,
            Err(error) => {
                tracing::warn!(
                    code = error.code(),
                    "a question of the orchestrator was not asked"
                );
                (Value::Null, Some(error.code()))
            }
            Ok(response) => (response, None),
        };
        if !is_known {
            self.deliveries.push(self.channel.deliver(HumanAnswer {
                request_id,
                response,
                error,
            }));
        }
    }

    /// Asks humans and delivers their answers. Returns only with an error.
    pub(super) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<GatewayError> {
        let mut at = 0;
        while at < self.open.len() {
            match self.open[at].waiting.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(answer) => {
                    let open = self.open.remove(at);
                    self.resolve(open.request_id, open.is_known, answer);
                }
            }
        }
        let mut at = 0;
        while at < self.deliveries.len() {
            match self.deliveries[at].as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(())) => drop(self.deliveries.swap_remove(at)),
                Poll::Ready(Err(error)) => return Poll::Ready(error),
            }
        }
        Poll::Pending
    }
}
