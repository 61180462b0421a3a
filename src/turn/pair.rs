//! The two halves of ADR 0007: an evidence collector with an event sink, and a stream of answer tokens.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::Stream;

use super::{BoxError, Pending, SendError, Sink, TurnBuilder};
use crate::event::Event;
use crate::event::item::Item;
use crate::metadata::Metadata;

/// Most events that are kept for the return value; a collector that says more is broken, not thorough.
const MAX_KEPT_EVENTS: usize = 10_000;

/// What an evidence collector reports to: every event goes live to the turn, if there is one, and into a list.
#[derive(Clone, Debug)]
pub struct EventSink {
    live: Option<Sink>,
    kept: Arc<Mutex<Vec<Event>>>,
}

impl EventSink {
    fn new(live: Option<Sink>) -> Self {
        Self {
            live,
            kept: Arc::default(),
        }
    }

    /// Reports an event; waits while the turn's queue is full.
    ///
    /// # Cancel safety
    ///
    /// The event is reported or not.
    ///
    /// # Errors
    ///
    /// [`SendError`] where the turn is over, or more than 10,000 events were reported.
    pub async fn send(&self, event: impl Into<Event>) -> Result<(), SendError> {
        let event = event.into();
        if self.lock().len() >= MAX_KEPT_EVENTS {
            return Err(SendError::Ended);
        }
        if let Some(live) = &self.live {
            live.send(Item::Event(event.clone())).await?;
        }
        self.lock().push(event);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a collector found, and what it reported on the way.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evidence<T> {
    /// The collector's own return value.
    pub found: T,
    /// Its events, in order: for code that uses the list instead of the stream.
    pub events: Vec<Event>,
}

/// What answers a question from its evidence: the tokens, and what closes the turn after them.
#[derive(Debug)]
pub struct Reply<S> {
    tokens: S,
    metadata: Metadata,
}

impl<S> Reply<S> {
    /// `tokens` is a stream of results whose values are text or bytes of text.
    pub fn new(tokens: S, metadata: Metadata) -> Self {
        Self { tokens, metadata }
    }
}

/// Runs an evidence collector without a turn: its events come back as a list only.
///
/// # Errors
///
/// The collector's own.
pub async fn collect_evidence<C, F, T, E>(collector: C) -> Result<Evidence<T>, E>
where
    C: FnOnce(EventSink) -> F,
    F: Future<Output = Result<T, E>>,
{
    run(EventSink::new(None), collector).await
}

async fn run<C, F, T, E>(sink: EventSink, collector: C) -> Result<Evidence<T>, E>
where
    C: FnOnce(EventSink) -> F,
    F: Future<Output = Result<T, E>>,
{
    let kept = sink.clone();
    let found = collector(sink).await?;
    let events = std::mem::take(&mut *kept.lock());
    Ok(Evidence { found, events })
}

impl TurnBuilder {
    /// Runs the two halves of ADR 0007 one after the other: `collector` with an event sink, then `answer` with what it
    /// found, whose tokens are streamed as they come.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::stream;
    /// use ragwire::turn::Reply;
    /// use ragwire::{EventSink, Metadata, SendError, Turn, event::Search};
    ///
    /// async fn collect_evidence(events: EventSink) -> Result<Vec<&'static str>, SendError> {
    ///     events.send(Search::new("bm25").query("answer")).await?;
    ///     Ok(vec!["forty-two"])
    /// }
    ///
    /// let turn = Turn::builder()
    ///     .start_pair(collect_evidence, |evidence| {
    ///         let tokens = stream::iter(evidence.found.into_iter().map(Ok::<_, SendError>));
    ///         Reply::new(tokens, Metadata::default())
    ///     })
    ///     .commit()
    ///     .await?;
    /// assert_eq!(turn.collect().await?.text, "forty-two");
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    pub fn start_pair<C, CF, T, CE, A, S, P, SE>(self, collector: C, answer: A) -> Pending
    where
        C: FnOnce(EventSink) -> CF + Send + 'static,
        CF: Future<Output = Result<T, CE>> + Send + 'static,
        CE: Into<BoxError> + Send,
        T: Send,
        A: FnOnce(Evidence<T>) -> Reply<S> + Send + 'static,
        S: Stream<Item = Result<P, SE>> + Send,
        P: Into<Item<'static>> + Send,
        SE: Into<BoxError> + Send,
    {
        self.start(async move |sink: Sink| {
            let evidence = run(EventSink::new(Some(sink.clone())), collector)
                .await
                .map_err(Into::into)?;
            let Reply { tokens, metadata } = answer(evidence);
            let mut tokens = pin!(tokens);
            while let Some(token) = poll_fn(|cx| tokens.as_mut().poll_next(cx)).await {
                sink.send(token.map_err(Into::into)?).await?;
            }
            Ok::<_, BoxError>(metadata)
        })
    }
}
