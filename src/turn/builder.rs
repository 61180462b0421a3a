//! The configuration of a turn, and its start.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Turn;
use super::admission::Names;
use super::admission::group::{Membership, TurnGroup};
use super::commit::{Commit, Pending};
use super::ending::{BoxError, Ending, Hook};
use super::handle::TurnHandle;
use super::id::TurnId;
use super::journal::{Disconnect, Journal, Recording};
use super::limits::QueueLimits;
use super::observer::{Observation, TurnObserver};
use super::producer::Producer;
use super::queue::Queue;
use super::reader::Reader;
use super::rejected::Rejected;
use super::sink::Sink;
use super::timeouts::Timeouts;
use crate::frame::End;
use crate::metadata::Metadata;

impl Turn {
    /// Runs `orchestrator` with the defaults of [`TurnBuilder`]. See [`TurnBuilder::start`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::{Metadata, SendError, Sink, Turn, event::Search};
    ///
    /// async fn answer(question: String, sink: Sink) -> Result<Metadata, SendError> {
    ///     sink.send(Search::new("bm25").query(&question)).await?;
    ///     sink.send("Forty-two.").await?;
    ///     Ok(Metadata::default().tools_used(["bm25"]))
    /// }
    ///
    /// let turn = Turn::start(|sink| answer("why?".into(), sink)).commit().await?;
    /// assert_eq!(turn.collect().await?.text, "Forty-two.");
    /// # Ok(()) }
    /// ```
    pub fn start<O, F, E>(orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        Self::builder().start(orchestrator)
    }

    /// Returns a builder with the defaults.
    pub fn builder() -> TurnBuilder {
        TurnBuilder::default()
    }
}

/// The name by which a group's limit per owner counts a turn.
#[derive(Debug, Default)]
enum Lane {
    #[default]
    Owner,
    Named(String),
    None,
}

/// Configures a turn: its limits, group, owner and journal. [`Turn::builder`] creates one with the
/// defaults.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use ragwire::turn::TurnGroup;
/// use ragwire::{Metadata, SendError, Sink, Timeouts, Turn};
///
/// async fn answer(sink: Sink) -> Result<Metadata, SendError> {
///     sink.send("Forty-two.").await?;
///     Ok(Metadata::default())
/// }
///
/// let group = TurnGroup::new(16);
/// let turn = Turn::builder()
///     .group(&group)
///     .owner("alice")
///     .timeouts(Timeouts::default().total(Duration::from_secs(120)))
///     .start(answer)
///     .commit()
///     .await?;
/// assert_eq!(turn.collect().await?.text, "Forty-two.");
/// # Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct TurnBuilder {
    commit: Commit,
    limits: QueueLimits,
    timeouts: Timeouts,
    mode: Option<String>,
    text_delay: Option<Duration>,
    hook: Option<Hook>,
    group: Option<TurnGroup>,
    owner: Option<String>,
    lane: Lane,
    client: Option<String>,
    journal: Option<Journal>,
    disconnect: Disconnect,
    observation: Option<Arc<Observation>>,
}

impl TurnBuilder {
    /// Sets when the response begins.
    #[must_use]
    pub fn commit_on(mut self, commit: Commit) -> Self {
        self.commit = commit;
        self
    }

    /// Sets how much may wait for the reader.
    #[must_use]
    pub fn queue(mut self, limits: QueueLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time limits.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets the mode in the metadata. It is also there when the turn fails, where the orchestrator
    /// cannot set it.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Holds the answer's first text until no event has followed it for `after`. Default: nothing is
    /// held.
    ///
    /// Models often announce a tool call in words ("Let me look."). On [`Framed`](crate::Framed),
    /// which has no place for events between texts, those words would begin the answer, and every
    /// later step would reach the reader only with the end. With a delay of, say, 300 ms, the call
    /// and its results come first, and the words follow with the next text that is not announced
    /// away, or with the end. No text is lost, and texts keep their order; only events overtake them,
    /// on every wire of this turn. A text of more than 1 KiB is not held, and a `retract` shortens
    /// the text that is held.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use ragwire::event::Search;
    /// use ragwire::{Metadata, SendError, Sink, Turn};
    ///
    /// let turn = Turn::builder()
    ///     .delay_first_text(Duration::from_millis(300))
    ///     .start(|sink: Sink| async move {
    ///         sink.send("Let me look. ").await?;
    ///         sink.send(Search::new("bm25")).await?; // live on the framed wire
    ///         sink.send("Forty-two.").await?;
    ///         Ok::<_, SendError>(Metadata::default())
    ///     });
    /// assert_eq!(turn.commit().await?.collect().await?.text, "Let me look. Forty-two.");
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn delay_first_text(mut self, after: Duration) -> Self {
        self.text_delay = Some(after);
        self
    }

    /// Calls `hook` exactly once, after the orchestrator was dropped and before the reader gets the
    /// end, for example to store the answer. It runs however the turn ended, also if the turn ended
    /// on the waiting list of its group. The hook is cancelled after 10 seconds.
    #[must_use]
    pub fn before_end<F, H>(mut self, hook: H) -> Self
    where
        H: FnOnce(Ending) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.hook = Some(Hook::new(hook));
        self
    }

    /// Adds the turn to a group: it counts against the group's limits, waits if the group is full,
    /// and ends when the group shuts down.
    #[must_use]
    pub fn group(mut self, group: &TurnGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Sets the owner of the turn: the name of the authenticated user, or of a session. The group's
    /// limit per owner counts by it. Only the owner can resume a journaled turn or stop it by its
    /// ID; if no owner is set, anyone who has the ID can.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets a name by which the group's limit per owner counts instead of the
    /// [`owner`](Self::owner), for example a conversation that answers one question at a time,
    /// whichever client asks it. A lane does not grant access to the turn; a [`Journal`] finds the
    /// owner's newest turn by it.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = Lane::Named(lane.into());
        self
    }

    /// Sets the client by which the group's limits per client count, for example the address of the
    /// connection. It does not grant access to the turn.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Exempts the turn from the group's limit per owner, although it has an
    /// [`owner`](Self::owner).
    #[must_use]
    pub fn no_lane(mut self) -> Self {
        self.lane = Lane::None;
        self
    }

    /// Records the turn in `journal` from the moment its response begins: it can then be resumed,
    /// read by several readers, and stopped by its ID. If the journal is full of running turns, the
    /// turn is refused.
    ///
    /// The limit on the size of an event is at most 255 KiB then (1 KiB below the default of
    /// [`QueueLimits`]), so that an event with its index fits a line of the wires of this crate.
    #[must_use]
    pub fn journal(mut self, journal: &Journal) -> Self {
        self.journal = Some(journal.clone());
        self
    }

    /// Sets what happens to a journaled turn when its last reader disconnects. A turn without a
    /// journal, or whose response has not begun, is always cancelled.
    #[must_use]
    pub fn on_disconnect(mut self, disconnect: Disconnect) -> Self {
        self.disconnect = disconnect;
        self
    }

    /// Sets what receives the figures of the turn after its end, for metrics.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn TurnObserver>) -> Self {
        self.observation = Some(Observation::new(observer));
        self
    }

    /// Runs `orchestrator` in its own task. It gets the sink, and its return value ends the turn.
    ///
    /// If the group refuses the turn, `orchestrator` is not called. If the turn has to wait,
    /// `orchestrator` is called at once to create the future, which may borrow, but the future is
    /// not polled until the turn is admitted, and its sink acts as if the queue were full. Put
    /// everything that must not happen earlier into the future.
    ///
    /// The `queued` events of a waiting turn are frames. With [`Commit::first_frame`] they begin
    /// the response, so later failures are reported in the stream. A response that does not stream
    /// still gets its status from [`Collected::into_result`](super::Collected::into_result).
    ///
    /// If the error is a [`Failure`](crate::Failure), the reader gets its message. Any other error
    /// is only logged, and the reader gets the default failure.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, as `tokio::spawn` does.
    pub fn start<O, F, E>(self, orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, E>> + Send + 'static,
        E: Into<BoxError>,
    {
        self.run(false, |sink| {
            let orchestrator = orchestrator(sink);
            async move { orchestrator.await.map_err(Into::into) }
        })
    }

    /// Returns the sink instead of running an orchestrator, for producers that already have a
    /// thread or task. [`Sink::finish`] or [`Sink::fail`] ends the turn; the turn fails if the last
    /// sink is dropped without either. While the turn is on the waiting list of its group, sends
    /// wait too.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use ragwire::{Metadata, Turn};
    ///
    /// let (sink, pending) = Turn::builder().channel();
    /// let model = std::thread::spawn(move || {
    ///     sink.blocking_send("Forty-two.")?;
    ///     sink.finish(Metadata::default())
    /// });
    /// assert_eq!(pending.commit().await?.collect().await?.text, "Forty-two.");
    /// model.join().expect("the thread does not panic")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, as `tokio::spawn` does.
    pub fn channel(self) -> (Sink, Pending) {
        let mut given = None;
        let pending = self.run(true, |sink| {
            given = Some(sink);
            std::future::pending()
        });
        // A refused turn does not call the closure. Its sink then belongs to a turn that has ended.
        let sink = given.unwrap_or_else(|| Sink::new(pending.reader.handle(), true));
        (sink, pending)
    }

    fn run<O, F>(mut self, ends_turn: bool, orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        let id = TurnId::random();
        let started = Instant::now();
        let span = turn_span(id);
        let limits = match self.journal {
            Some(_) => self.limits.within_a_line(),
            None => self.limits,
        };
        let queue = Arc::new(Queue::new(limits, self.hook.is_some(), started.into_std()));
        if let Some(after) = self.text_delay {
            queue.delay_text(after);
        }
        let admitted = self.admit(id, &queue, started);
        let reader = |membership| {
            Box::new(Reader {
                id,
                queue: Arc::clone(&queue),
                started,
                timeouts: self.timeouts,
                membership,
                span: span.clone(),
                rejected: None,
                observation: self.observation.clone(),
            })
        };
        let Admitted {
            membership,
            recording,
        } = match admitted {
            Ok(admitted) => admitted,
            Err(rejected) => {
                // A refused turn costs nothing: its orchestrator is not even called.
                drop(orchestrator);
                queue.finish(End::failed(rejected.failure.clone()));
                return Pending {
                    reader: reader(None),
                    commit: self.commit,
                    refused: Some(Box::new(Rejected { id, ..rejected })),
                    recording: None,
                };
            }
        };
        if membership.as_ref().is_some_and(Membership::waits) {
            queue.hold();
        }
        let reader = reader(membership.clone());
        let producer = Producer {
            id,
            queue: Arc::clone(&queue),
            started,
            timeouts: self.timeouts,
            delays_text: self.text_delay.is_some(),
            mode: self.mode,
            hook: self.hook,
            membership,
        };
        let orchestrator = span.in_scope(|| orchestrator(Sink::new(TurnHandle { id, queue }, ends_turn)));
        producer.spawn(orchestrator, span);
        Pending {
            reader,
            commit: self.commit,
            refused: None,
            recording,
        }
    }

    /// Reserves room in the journal and joins the group. If the group refuses the turn, the room in
    /// the journal is free again.
    fn admit(&mut self, id: TurnId, queue: &Arc<Queue>, started: Instant) -> Result<Admitted, Rejected> {
        let slot = match &self.journal {
            Some(journal) => Some(journal.reserve(id)?),
            None => None,
        };
        let owner = self.owner.take();
        let lane = match std::mem::take(&mut self.lane) {
            Lane::Owner => owner.clone(),
            Lane::Named(lane) => Some(lane),
            Lane::None => None,
        };
        let membership = match &self.group {
            Some(group) => {
                let handle = TurnHandle {
                    id,
                    queue: Arc::clone(queue),
                };
                let names = Names {
                    lane: lane.as_deref().map(Arc::from),
                    client: self.client.take().map(Arc::from),
                };
                Some(group.join(&handle, names, started)?)
            }
            None => None,
        };
        let recording = slot.map(|slot| {
            Box::new(Recording {
                slot,
                owner: owner.unwrap_or_default(),
                lane,
                disconnect: self.disconnect,
            })
        });
        Ok(Admitted {
            membership,
            recording,
        })
    }
}

/// A turn's membership in its group, and its room in its journal.
struct Admitted {
    membership: Option<Membership>,
    recording: Option<Box<Recording>>,
}

/// Creates the span of a turn; the reader fills in the empty fields.
fn turn_span(id: TurnId) -> tracing::Span {
    tracing::info_span!(
        target: "ragwire",
        "turn",
        id = %id.short(),
        wire = tracing::field::Empty,
        first_event_ms = tracing::field::Empty,
        first_text_ms = tracing::field::Empty,
        frames = tracing::field::Empty,
        bytes = tracing::field::Empty,
        outcome = tracing::field::Empty,
    )
}
