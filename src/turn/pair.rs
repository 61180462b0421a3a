//! The two halves of a pipeline by ADR 0007: an evidence collector with an event sink, and a stream
//! of answer tokens.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_core::Stream;

use super::builder::TurnBuilder;
use super::commit::Pending;
use super::ending::BoxError;
use super::sink::{SendError, Sink};
use crate::event::Event;
use crate::event::item::Item;
use crate::metadata::Metadata;

/// The maximum number of events in the return value. A collector that reports more has a bug.
const MAX_EVENTS: usize = 10_000;

/// Reports the events of an evidence collector: each one goes live to the turn, if there is one,
/// and into a list.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire::event::Search;
/// use ragwire::turn::collect_evidence;
/// use ragwire::{EventSink, SendError};
///
/// async fn search(events: EventSink) -> Result<Vec<&'static str>, SendError> {
///     events.send(Search::new("bm25").query("answer")).await?;
///     Ok(vec!["forty-two"])
/// }
///
/// // Without a turn, for example in a test. `TurnBuilder::start_pair` runs it in one.
/// let evidence = collect_evidence(search).await?;
/// assert_eq!((evidence.value, evidence.events.len()), (vec!["forty-two"], 1));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct EventSink {
    live: Option<Sink>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl EventSink {
    fn new(live: Option<Sink>) -> Self {
        Self {
            live,
            events: Arc::default(),
        }
    }

    /// Reports an event. Waits while the turn's queue is full.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the event was either reported or not.
    ///
    /// # Errors
    ///
    /// Returns [`SendError`] if the turn does not take the event, and [`SendError::TooManyEvents`]
    /// after 10,000 events.
    pub async fn send(&self, event: impl Into<Event>) -> Result<(), SendError> {
        let event = event.into();
        if self.lock().len() >= MAX_EVENTS {
            return Err(SendError::TooManyEvents);
        }
        if let Some(live) = &self.live {
            live.send(Item::Event(event.clone())).await?;
        }
        self.lock().push(event);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of an evidence collector.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Evidence<T> {
    /// The collector's return value.
    pub value: T,
    /// The reported events in order, for code that uses the list instead of the stream.
    pub events: Vec<Event>,
}

/// The answer to a question: its tokens, and the metadata that ends the turn after them.
#[derive(Debug)]
pub struct Reply<S> {
    tokens: S,
    metadata: Metadata,
}

impl<S> Reply<S> {
    /// Creates a reply from a stream of results whose values are text or bytes of text.
    pub fn new(tokens: S, metadata: Metadata) -> Self {
        Self { tokens, metadata }
    }
}

/// Runs an evidence collector without a turn: its events are only returned as a list.
///
/// # Errors
///
/// Returns the collector's error.
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
    let reported = sink.clone();
    let value = collector(sink).await?;
    let events = std::mem::take(&mut *reported.lock());
    Ok(Evidence { value, events })
}

impl TurnBuilder {
    /// Runs the two halves of ADR 0007 one after the other: `collector` with an event sink, then
    /// `answer` with the evidence. The answer's tokens are streamed as they arrive.
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
    ///         let tokens = stream::iter(evidence.value.into_iter().map(Ok::<_, SendError>));
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
    /// Panics outside of a tokio runtime, as `tokio::spawn` does.
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
