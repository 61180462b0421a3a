//! Answers that arrive as a stream: from another service on any wire, or from a library as items.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_core::Stream;

use super::ending::{BoxError, Chain};
use super::sink::{SendError, Sink};
use crate::event::{Event, Retract, Thinking};
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame, Status};
use crate::metadata::Metadata;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::utf8;
use crate::wire::{Decode, DecodeError, Finish};

/// How much of a relayed answer is remembered, to find what a later snapshot adds to it. No decoder
/// of this crate accepts a longer snapshot by default.
const MAX_REMEMBERED_BYTES: usize = 1024 * 1024;

/// How long the body may take to end after the upstream's end of the turn. HTTP clients reuse a
/// connection only if the body was read to its end, which usually arrives with the last chunk.
const MAX_WAIT_FOR_BODY_END: Duration = Duration::from_millis(10);

/// An item of a stream for [`Sink::send_all`]: what [`Sink::send`] accepts, or a result of it.
///
/// `Kind` only distinguishes the two implementations; the compiler infers it.
pub trait StreamItem<Kind>: Send {
    /// The value.
    type Item: Into<crate::Item<'static>> + Send;
    /// The error; [`Infallible`] for an item that is not a result.
    type Error: Into<BoxError> + Send;

    /// Returns the item as a result.
    ///
    /// # Errors
    ///
    /// Returns the error of an item that is a result.
    fn into_result(self) -> Result<Self::Item, Self::Error>;
}

/// The kind of a [`StreamItem`] that is not a result.
#[derive(Debug)]
pub struct OfItem(());

/// The kind of a [`StreamItem`] that is a result.
#[derive(Debug)]
pub struct OfResult(());

impl<T: Into<crate::Item<'static>> + Send> StreamItem<OfItem> for T {
    type Item = T;
    type Error = Infallible;

    fn into_result(self) -> Result<T, Infallible> {
        Ok(self)
    }
}

impl<T: Into<crate::Item<'static>> + Send, E: Into<BoxError> + Send> StreamItem<OfResult> for Result<T, E> {
    type Item = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

impl Sink {
    /// Sends everything that `items` yields, with back-pressure: the next item is polled when the
    /// last one was queued.
    ///
    /// The stream yields events, text or bytes of text, or results of them. Dropping the turn drops
    /// the stream.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::stream;
    /// use ragwire::turn::BoxError;
    /// use ragwire::{Metadata, Sink, Turn};
    ///
    /// async fn answer(sink: Sink) -> Result<Metadata, BoxError> {
    ///     sink.send_all(stream::iter(["Forty", "-two."])).await?;
    ///     sink.send_all(stream::iter([Ok::<_, std::io::Error>(" Indeed.")])).await?;
    ///     Ok(Metadata::default())
    /// }
    ///
    /// let collected = Turn::start(answer).commit().await?.collect().await?;
    /// assert_eq!(collected.text, "Forty-two. Indeed.");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error of the stream, or the [`SendError`] of [`send`](Self::send).
    #[expect(
        clippy::manual_async_fn,
        reason = "a caller's future with an item that borrows would not be `Send` with `async fn`"
    )]
    pub fn send_all<Kind, S>(&self, items: S) -> impl Future<Output = Result<(), BoxError>> + Send
    where
        S: Stream + Send,
        S::Item: StreamItem<Kind>,
    {
        async move {
            let mut items = pin!(items);
            while let Some(item) = next(&mut items).await {
                self.send(item.into_result().map_err(Into::into)?).await?;
            }
            Ok(())
        }
    }

    /// Sends the answer of another service: decodes the chunks of its response and sends every
    /// event and every piece of text, with back-pressure. Returns the metadata with which the
    /// service completed the answer.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use futures_util::{Stream, stream};
    /// # struct Response;
    /// # impl Response { fn bytes_stream(self) -> impl Stream<Item = Result<&'static [u8], std::io::Error>> {
    /// #     stream::iter([Ok(&b"{\"index\":0,\"text\":\"Forty-two.\"}\n"[..]), Ok(b"{\"index\":1,\"end\":\"completed\"}\n")])
    /// # } }
    /// # async fn post(question: &str) -> Result<Response, std::io::Error> { Ok(Response) }
    /// use ragwire::turn::BoxError;
    /// use ragwire::{Metadata, Ndjson, Sink, Turn};
    ///
    /// async fn answer(sink: Sink) -> Result<Metadata, BoxError> {
    ///     let response = post("http://rag:8080/ask").await?;
    ///     Ok(sink.relay(Ndjson::default().decoder(), response.bytes_stream()).await?)
    /// }
    ///
    /// let collected = Turn::start(answer).commit().await?.collect().await?;
    /// assert_eq!(collected.text, "Forty-two.");
    /// # Ok(()) }
    /// ```
    ///
    /// `chunks` is `response.bytes_stream()` of reqwest, `body.into_data_stream()` of
    /// `http_body_util::BodyExt` for hyper and axum, or any other stream of bytes. It is dropped
    /// with the turn, which closes the connection to the service.
    ///
    /// A snapshot, with which a service replaces frames that it has dropped, is sent as what it
    /// adds to the answer so far. An event that this turn's queue refuses, for example because it
    /// is too long, is counted as dropped.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the upstream request is dropped with it, and a part of the answer
    /// may have been sent.
    ///
    /// # Errors
    ///
    /// Return the [`RelayError`] from the orchestrator, boxed or not, and the turn ends as the
    /// upstream's did. A text from the network never reaches the reader, except in a failure on a
    /// wire whose messages are written for readers ([`Decode::shows_failures`]); the log has
    /// everything.
    ///
    /// | upstream | this turn |
    /// |---|---|
    /// | fails | fails with the upstream's code, message and `recoverable` |
    /// | fails on another wire | fails with the upstream's code and a general message |
    /// | fails with a code that is about a connection to it (`gone`, `lost`, …) | fails with `upstream_failed` |
    /// | is stopped | is stopped |
    /// | ends without an end of the turn | fails with `upstream_truncated` |
    /// | breaks a rule of its wire | fails with `upstream_unreadable` |
    /// | exceeds a limit of its wire | fails with `upstream_too_large` |
    /// | breaks its connection | fails with `upstream_failed` |
    pub async fn relay<D, S, C, E>(&self, decoder: D, chunks: S) -> Result<Metadata, RelayError>
    where
        D: Decode,
        S: Stream<Item = Result<C, E>> + Send,
        C: AsRef<[u8]> + Send,
        E: Into<BoxError> + Send,
    {
        let mut chunks = pin!(chunks);
        let mut relayed = Relayed::new(self, decoder);
        loop {
            if let Some(end) = relayed.send_ready().await? {
                let read_to_end = async { while let Some(Ok(_)) = next(&mut chunks).await {} };
                let _ = tokio::time::timeout(MAX_WAIT_FOR_BODY_END, read_to_end).await;
                return relayed.ended(end);
            }
            match next(&mut chunks).await {
                Some(Ok(chunk)) => relayed.decoder.feed(chunk.as_ref()),
                Some(Err(error)) => {
                    let error: BoxError = error.into();
                    tracing::warn!(error = %Chain(&*error), "the body of the upstream broke off");
                    return Err(RelayError::Failed(Failure::upstream_failed()));
                }
                None => break,
            }
        }
        let finish = relayed.decoder.finish();
        match (relayed.send_ready().await?, finish) {
            (Some(end), _) => relayed.ended(end),
            (None, Finish::Invalid(error)) => Err(unreadable(error)),
            (None, Finish::Truncated { .. } | Finish::Complete) => {
                tracing::warn!("the body of the upstream ended before its turn did");
                Err(RelayError::Failed(Failure::new(
                    FailureKind::UpstreamTruncated,
                    "The answer broke off before its end. Please retry.",
                )))
            }
        }
    }
}

async fn next<S: Stream>(stream: &mut Pin<&mut S>) -> Option<S::Item> {
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

fn unreadable(error: DecodeError) -> RelayError {
    tracing::warn!(
        code = error.code(),
        "the upstream's answer violates its wire: {error}"
    );
    let kind = match error {
        DecodeError::LineTooLong | DecodeError::TrailerTooLong => FailureKind::UpstreamTooLarge,
        DecodeError::BadEvent
        | DecodeError::BadTrailer
        | DecodeError::StraySeparator
        | DecodeError::Gap
        | DecodeError::TrailingBytes => FailureKind::UpstreamUnreadable,
    };
    RelayError::Failed(Failure::new(
        kind,
        "The answer could not be read to its end. Please retry.",
    ))
}

impl Failure {
    fn upstream_failed() -> Self {
        Self::new(
            FailureKind::UpstreamFailed,
            "The service that answers failed. Please retry.",
        )
    }

    /// Returns this failure of an upstream as one of the turn that relays it.
    fn relayed(self, shows_failures: bool) -> Self {
        let is_about_connection = match &self.kind {
            // The connection to the upstream is not the reader's.
            FailureKind::WriteStalled
            | FailureKind::Stopped
            | FailureKind::NotAcceptable
            | FailureKind::NotFound
            | FailureKind::UnknownTurn
            | FailureKind::Gone
            | FailureKind::Ahead
            | FailureKind::Lost => true,
            FailureKind::ChatFailed
            | FailureKind::NoDocuments
            | FailureKind::NoGraph
            | FailureKind::Timeout
            | FailureKind::ShuttingDown
            | FailureKind::Busy
            | FailureKind::TooMany
            | FailureKind::QueueTimeout
            | FailureKind::Interrupted
            | FailureKind::Unavailable
            | FailureKind::UpstreamUnreachable
            | FailureKind::UpstreamRefused
            | FailureKind::UpstreamTimeout
            | FailureKind::UpstreamTruncated
            | FailureKind::UpstreamUnreadable
            | FailureKind::UpstreamTooLarge
            | FailureKind::UpstreamFailed
            | FailureKind::FileNotAccepted
            | FailureKind::Other(_) => false,
        };
        let general = Self::upstream_failed();
        if is_about_connection || !(shows_failures || is_name(self.code())) {
            Self {
                recoverable: self.recoverable,
                ..general
            }
        } else if shows_failures {
            self
        } else {
            Self {
                message: general.message,
                ..self
            }
        }
    }
}

/// Returns `true` if a code is a name for programs, not a sentence that may tell more than it
/// should.
fn is_name(code: &str) -> bool {
    (1..=64).contains(&code.len())
        && code
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Why [`Sink::relay`] has no metadata. Returned from the orchestrator, it ends the turn.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The upstream failed, or its answer is incomplete. The failure may be shown to any reader.
    #[error("upstream failed: {0}")]
    Failed(Failure),
    /// The upstream's turn was stopped.
    #[error("upstream turn was stopped")]
    Stopped,
    /// This turn accepts nothing more.
    #[error(transparent)]
    Send(#[from] SendError),
}

impl RelayError {
    /// Returns a stable name for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Failed(failure) => failure.code(),
            Self::Stopped => "stopped",
            Self::Send(error) => error.code(),
        }
    }

    /// Returns the end of a turn whose orchestrator returned this error.
    pub(super) fn into_end(self) -> Result<End, SendError> {
        match self {
            Self::Failed(failure) => Ok(End::failed(failure)),
            Self::Stopped => Ok(End::stopped()),
            Self::Send(error) => Err(error),
        }
    }
}

/// The state of one relayed stream.
#[derive(Debug)]
struct Relayed<'a, D> {
    sink: &'a Sink,
    decoder: D,
    /// The number of characters of the answer before this stream's.
    before: u64,
    /// The answer of this stream so far; `None` once it is longer than any snapshot.
    text: Option<String>,
    /// The upstream's time of the last event.
    last_event: Option<Timestamp>,
    /// The ID of the thought whose piece was the last event, and its length so far in bytes.
    thought: Option<(String, usize)>,
    /// Number of events that the upstream's snapshots leave out.
    events_dropped: u64,
}

impl<'a, D: Decode> Relayed<'a, D> {
    fn new(sink: &'a Sink, decoder: D) -> Self {
        Self {
            sink,
            decoder,
            before: sink.queue().answer_chars(),
            text: Some(String::new()),
            last_event: None,
            thought: None,
            events_dropped: 0,
        }
    }

    /// Sends all frames that are decoded, adjacent texts as one. Returns the end if it is one of them.
    async fn send_ready(&mut self) -> Result<Option<End>, RelayError> {
        let mut text = String::new();
        let end = loop {
            let frame = match self.decoder.next() {
                Some(Ok(Frame::Text(next))) if text.is_empty() => {
                    text = next;
                    continue;
                }
                Some(Ok(Frame::Text(next))) => {
                    text.push_str(&next);
                    continue;
                }
                frame => frame,
            };
            self.send_text(&std::mem::take(&mut text)).await?;
            match frame.transpose().map_err(unreadable)? {
                Some(Frame::Event { event, timestamp }) => self.send_event(event, timestamp).await?,
                Some(Frame::Text(text)) => self.send_text(&text).await?,
                Some(Frame::Snapshot(snapshot)) => self.send_snapshot(*snapshot).await?,
                Some(Frame::End(end)) => break Some(end),
                None => break None,
            }
        };
        Ok(end)
    }

    async fn send_event(&mut self, event: Event, timestamp: Option<Timestamp>) -> Result<(), SendError> {
        self.last_event = timestamp.or(self.last_event);
        if let Event::Retract(retract) = &event {
            return self.retract(retract.kept).await;
        }
        self.thought = if let Event::Thinking(piece) = &event {
            self.continued(piece)
        } else {
            None
        };
        match self.sink.send(event).await {
            Err(SendError::Invalid(error)) => {
                tracing::debug!(code = error.code(), "an event of the upstream was dropped");
                self.sink.queue().count_dropped();
                Ok(())
            }
            sent => sent,
        }
    }

    /// Returns the thought that `piece` continues or begins.
    fn continued(&mut self, piece: &Thinking) -> Option<(String, usize)> {
        let id = piece.id.as_ref()?;
        let before = self.thought.take().filter(|(thought, _)| thought == id);
        let (id, length) = before.unwrap_or_else(|| (id.clone(), 0));
        Some((id, length + piece.content.len()))
    }

    /// Removes from a thought of a snapshot the pieces that were sent before.
    fn remove_sent_pieces(&self, event: &mut Event) {
        if let Event::Thinking(thought) = event
            && let Some((id, length)) = &self.thought
            && thought.id.as_ref() == Some(id)
            && thought.content.is_char_boundary(*length)
        {
            thought.content.drain(..length);
        }
    }

    async fn send_text(&mut self, text: &str) -> Result<(), SendError> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(relayed) = &mut self.text {
            relayed.push_str(text);
            if relayed.len() > MAX_REMEMBERED_BYTES {
                self.text = None;
            }
        }
        self.sink.send(text).await
    }

    /// Takes back everything of this stream's answer after `kept` characters.
    async fn retract(&mut self, kept: u64) -> Result<(), SendError> {
        if let Some(text) = &mut self.text {
            utf8::keep_chars(text, kept);
        }
        self.sink
            .send(Retract::new(self.before.saturating_add(kept)))
            .await
    }

    /// Sends what a snapshot adds. Its events are the last states of steps in the order of their
    /// times, so those before the last event are known.
    async fn send_snapshot(&mut self, snapshot: Snapshot) -> Result<(), SendError> {
        let seen = self.last_event;
        self.events_dropped += snapshot.events_dropped;
        for (mut event, timestamp) in snapshot.events {
            if seen.zip(timestamp).is_none_or(|(seen, at)| at > seen) {
                self.remove_sent_pieces(&mut event);
                self.send_event(event, timestamp).await?;
            }
        }
        let known = self.text.as_deref().unwrap_or_default();
        let same = common_prefix(known, &snapshot.text);
        if same < known.len() || self.text.is_none() {
            let kept = known[..same].chars().count();
            self.retract(u64::try_from(kept).unwrap_or(u64::MAX)).await?;
            self.text.get_or_insert_default();
        }
        self.send_text(&snapshot.text[same..]).await
    }

    fn ended(self, end: End) -> Result<Metadata, RelayError> {
        match end.status {
            Status::Completed => {
                let mut metadata = end.metadata;
                metadata.events_dropped += self.events_dropped;
                // The upstream's waiting list counts only if the turn was on it; otherwise this
                // turn's own is reported.
                metadata.queue_stats = metadata.queue_stats.filter(|stats| stats.was_queued);
                Ok(metadata)
            }
            Status::Stopped => Err(RelayError::Stopped),
            Status::Failed(failure) => {
                tracing::warn!(
                    code = failure.code(),
                    words = &*failure.message,
                    "the upstream reported a failure"
                );
                Err(RelayError::Failed(failure.relayed(self.decoder.shows_failures())))
            }
        }
    }
}

/// Returns the length in bytes of the longest common prefix of whole characters.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    a.floor_char_boundary(same)
}
