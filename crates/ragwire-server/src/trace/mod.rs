//! Distributed tracing: the trace context of a request (`traceparent`) goes on to the servers that its
//! turn asks. In builds with the feature `otel` and with `--otlp-url`, each turn is a span.
//!
//! | file | contents |
//! |---|---|
//! | `spans` | a span per turn, exported with OTLP |

#[cfg(feature = "otel")]
mod spans;

use std::fmt;
use std::sync::Arc;

use ragwire::orchestrator::{Answering, Headers, Searcher};
use ragwire::turn::{FinishedTurn, TurnId, TurnObserver};
use ragwire::{Orchestrator, Question, Sink};
use ragwire_rag::TraceContext;
use serde_json::Value;

use crate::metrics::Metrics;
use crate::settings::Settings;

/// What traces the turns of a server. Clones share it.
#[derive(Clone)]
pub struct Tracing {
    #[cfg(feature = "otel")]
    spans: Option<Arc<spans::Spans>>,
}

impl Tracing {
    /// Creates what the settings say. Must be called in a tokio runtime.
    #[cfg(feature = "otel")]
    pub fn new(settings: &Settings) -> Self {
        Self {
            spans: spans::Spans::new(settings).map(Arc::new),
        }
    }

    /// Creates what only passes trace contexts on, because the build has no spans.
    #[cfg(not(feature = "otel"))]
    pub fn new(_: &Settings) -> Self {
        Self {}
    }

    /// Returns the context for what a turn asks of others: its own span, or the context that the
    /// client sent.
    fn begin(&self, turn: TurnId, given: Option<TraceContext>) -> Option<TraceContext> {
        #[cfg(feature = "otel")]
        if let Some(spans) = &self.spans {
            return spans.begin(turn, given.as_ref());
        }
        let _ = turn;
        given
    }

    /// Returns the orchestrator, whose turns are traced.
    pub(crate) fn of(&self, orchestrator: Arc<dyn Orchestrator>) -> Arc<dyn Orchestrator> {
        Arc::new(Traced {
            tracing: self.clone(),
            orchestrator,
        })
    }

    /// Returns what receives each finished turn.
    pub(crate) fn observer(&self, metrics: &Arc<Metrics>) -> Arc<dyn TurnObserver> {
        Arc::new(Observers {
            metrics: Arc::clone(metrics),
            tracing: self.clone(),
        })
    }

    /// Exports what is left, within 5 seconds.
    #[cfg(feature = "otel")]
    pub(crate) async fn shut_down(&self) {
        if let Some(spans) = &self.spans {
            spans.shut_down().await;
        }
    }

    /// Does nothing, because the build has no spans.
    #[cfg(not(feature = "otel"))]
    #[expect(clippy::unused_async, reason = "the one with spans waits for their export")]
    pub(crate) async fn shut_down(&self) {}
}

impl fmt::Debug for Tracing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracing").finish_non_exhaustive()
    }
}

/// Counts and traces finished turns.
struct Observers {
    metrics: Arc<Metrics>,
    tracing: Tracing,
}

impl TurnObserver for Observers {
    fn finished(&self, turn: &FinishedTurn<'_>) {
        self.metrics.finished(turn);
        #[cfg(feature = "otel")]
        if let Some(spans) = &self.tracing.spans {
            spans.finished(turn);
        }
        let _ = &self.tracing;
    }
}

/// An orchestrator whose turns are traced.
struct Traced {
    tracing: Tracing,
    orchestrator: Arc<dyn Orchestrator>,
}

impl Orchestrator for Traced {
    fn answer(&self, mut question: Question, sink: Sink) -> Answering {
        let given = context(&question.options.headers);
        let Some(context) = self.tracing.begin(sink.handle().id(), given) else {
            return self.orchestrator.answer(question, sink);
        };
        // An orchestrator outside of this process reads it there.
        let is_other = |name: &str| name != TraceContext::PARENT && name != TraceContext::STATE;
        let others = question.options.headers.iter();
        let others = others.filter(|(name, _)| is_other(name));
        let own = context
            .headers()
            .map(|(name, value)| -> (&str, &str) { (name, value) });
        question.options.headers = others.chain(own).collect();
        Box::pin(context.scope(self.orchestrator.answer(question, sink)))
    }

    fn searcher(&self) -> Option<Arc<dyn Searcher>> {
        self.orchestrator.searcher()
    }

    fn has_structured_results(&self) -> bool {
        self.orchestrator.has_structured_results()
    }

    fn check_filter(&self, filter: &Value) -> Option<Result<(), String>> {
        self.orchestrator.check_filter(filter)
    }
}

/// Reads the context that a client sent: exactly one `traceparent`.
fn context(headers: &Headers) -> Option<TraceContext> {
    let mut parents = headers.iter().filter(|(name, _)| *name == TraceContext::PARENT);
    let (_, parent) = parents.next()?;
    if parents.next().is_some() {
        return None;
    }
    TraceContext::new(parent, headers.get(TraceContext::STATE))
}
