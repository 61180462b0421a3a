//! Everything about a turn that is not the orchestrator, and the start of both.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use tokio::time::Instant;

use super::group::Membership;
use super::journal::Recording;
use super::queue::Queue;
use super::reader::Reader;
use super::{
    BoxError, Commit, Disconnect, Journal, Pending, QueueLimits, Rejected, Sink, Timeouts, TurnGroup,
    TurnHandle, TurnId, producer,
};
use crate::frame::{End, Status};
use crate::metadata::Metadata;

/// How a turn ended, told to the application before the reader learns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ending {
    /// The turn.
    pub id: TurnId,
    /// Its end. A reader that went away counts as stopped.
    pub end: End,
    /// The answer so far, at most 1 MiB of it.
    pub text: String,
}

impl Ending {
    /// What the reader of a text wire has in the end: the answer, and the completing sentence where the turn failed.
    pub fn answer(&self) -> String {
        match &self.end.status {
            Status::Failed(failure) if self.text.is_empty() => failure.message.clone().into_owned(),
            Status::Failed(failure) => format!("{}\n\n{}", self.text, failure.message),
            Status::Completed | Status::Stopped => self.text.clone(),
        }
    }
}

type HookFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The application's own work before the end.
pub(super) struct Hook(Box<dyn FnOnce(Ending) -> HookFuture + Send>);

impl Hook {
    pub(super) async fn call(self, ending: Ending) {
        (self.0)(ending).await;
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// What a group's limit per owner counts a turn by.
#[derive(Debug, Default)]
enum Lane {
    #[default]
    Owner,
    Own(String),
    None,
}

/// Everything about a turn that is not the orchestrator.
#[derive(Debug, Default)]
pub struct TurnBuilder {
    commit: Commit,
    limits: QueueLimits,
    timeouts: Timeouts,
    mode: Option<String>,
    hook: Option<Hook>,
    group: Option<TurnGroup>,
    owner: Option<String>,
    lane: Lane,
    journal: Option<Journal>,
    disconnect: Disconnect,
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

    /// Sets the limits in time.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets the mode that the metadata names, also where the turn fails and the orchestrator cannot say it.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = Some(mode.into());
        self
    }

    /// Calls `hook` exactly once, after the orchestrator is gone and before the reader learns of the end, however the turn
    /// ended: to remember the answer, for example. It has 10 seconds. A turn that ended while it waited for its place is one too.
    #[must_use]
    pub fn before_end<F, H>(mut self, hook: H) -> Self
    where
        H: FnOnce(Ending) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.hook = Some(Hook(Box::new(|ending| Box::pin(hook(ending)))));
        self
    }

    /// Makes the turn one of a group: counted against its limits, made to wait where the group says so, and ended by its shutdown.
    #[must_use]
    pub fn group(mut self, group: &TurnGroup) -> Self {
        self.group = Some(group.clone());
        self
    }

    /// Sets whose turn it is: what your authentication calls the user, or a session. The group's limit per owner counts by it, and of a
    /// journaled turn only the owner may read it again or stop it by its id; without one, whoever has the id may.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets what the group's limit per owner counts by instead of the [`owner`](Self::owner): a conversation, say, of which one question
    /// is answered at a time whoever asks it. It gives nobody access to the turn; a [`Journal`] finds the owner's newest turn by it.
    #[must_use]
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.lane = Lane::Own(lane.into());
        self
    }

    /// Keeps the group's limit per owner from counting the turn, though it has an [`owner`](Self::owner).
    #[must_use]
    pub fn no_lane(mut self) -> Self {
        self.lane = Lane::None;
        self
    }

    /// Keeps the turn in `journal` from the moment that its response begins: it can be read again, by several readers, and stopped by
    /// its id. Where the journal is full of turns that run, the turn is refused.
    ///
    /// Its events may have 1 KiB less than the [queue](QueueLimits) allows, so that they fit our own wires with their index.
    #[must_use]
    pub fn journal(mut self, journal: &Journal) -> Self {
        self.journal = Some(journal.clone());
        self
    }

    /// Sets what becomes of a journaled turn when its last reader goes away. A turn without a journal is cancelled then, as every turn is
    /// whose response has not begun.
    #[must_use]
    pub fn on_disconnect(mut self, disconnect: Disconnect) -> Self {
        self.disconnect = disconnect;
        self
    }

    /// Runs `orchestrator` in a task of its own. It gets the sink; what it returns is the end of the turn.
    ///
    /// A group that refuses the turn does not call it. Where the turn waits for its place in the group, it is called at once to
    /// make the future, since it may borrow; the future is polled first when the turn has its place. Until then nothing is sent:
    /// its sink is as one whose queue is full. What must not happen before belongs into the future.
    ///
    /// The `queued` events of a turn that waits are frames, so with [`Commit::first_frame`] its response begins with them and what
    /// goes wrong later stands in the stream. A response that does not stream has its status from
    /// [`Collected::into_result`](super::Collected::into_result) all the same.
    ///
    /// An error that is a [`Failure`](crate::Failure) is shown to the reader in its own words, any other only logged.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
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

    /// Gives the sink away instead of running something: for producers that have a thread or a task already. The turn ends
    /// with [`Sink::finish`] or [`Sink::fail`]; it fails when the last sink is dropped without. While the turn waits for its place in
    /// its group, sends wait too.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    pub fn channel(self) -> (Sink, Pending) {
        let mut kept = None;
        let pending = self.run(true, |sink| {
            kept = Some(sink);
            std::future::pending()
        });
        // A group that refuses the turn does not call the closure: the sink is then one of a turn that is over.
        let sink = kept.unwrap_or_else(|| Sink::new(Arc::clone(&pending.reader.queue), true));
        (sink, pending)
    }

    fn run<O, F>(self, ends_turn: bool, orchestrator: O) -> Pending
    where
        O: FnOnce(Sink) -> F,
        F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
    {
        let id = TurnId::random();
        let started = Instant::now();
        let span = tracing::info_span!(
            target: "ragwire",
            "turn",
            %id,
            wire = tracing::field::Empty,
            first_event_ms = tracing::field::Empty,
            first_text_ms = tracing::field::Empty,
            frames = tracing::field::Empty,
            bytes = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        let limits = match self.journal {
            Some(_) => self.limits.within_a_line(),
            None => self.limits,
        };
        let queue = Arc::new(Queue::new(limits, self.hook.is_some(), started.into_std()));
        let handle = TurnHandle {
            id,
            queue: Arc::clone(&queue),
        };
        let slot = self
            .journal
            .as_ref()
            .map(|journal| journal.reserve(id))
            .transpose();
        let (owner, disconnect) = (self.owner, self.disconnect);
        let lane = match self.lane {
            Lane::Owner => owner.clone(),
            Lane::Own(lane) => Some(lane),
            Lane::None => None,
        };
        let places = slot.and_then(|slot| {
            let group = self.group.as_ref();
            let membership = group
                .map(|group| group.join(&handle, lane.clone(), started))
                .transpose()?;
            Ok((slot, membership))
        });
        let mut recording = None;
        let mut reader = Reader {
            id,
            queue: Arc::clone(&queue),
            started,
            timeouts: self.timeouts,
            membership: None,
            span: span.clone(),
            rejected: None,
        };
        let refused = match places {
            Ok((slot, membership)) => {
                recording = slot.map(|slot| Recording {
                    slot,
                    owner: owner.unwrap_or_default(),
                    lane,
                    disconnect,
                });
                if membership.as_ref().is_some_and(Membership::waits) {
                    queue.hold();
                }
                reader.membership.clone_from(&membership);
                let producer = producer::Producer {
                    id,
                    queue: Arc::clone(&queue),
                    started,
                    timeouts: self.timeouts,
                    mode: self.mode,
                    hook: self.hook,
                    membership,
                };
                let orchestrator = span.in_scope(|| orchestrator(Sink::new(queue, ends_turn)));
                producer.spawn(orchestrator, span);
                None
            }
            // Nothing is spent on a turn that cannot run: the orchestrator is not even called.
            Err(refusal) => {
                drop(orchestrator);
                queue.finish(End::failed(refusal.failure.clone()));
                Some(Rejected { id, ..refusal })
            }
        };
        Pending {
            reader,
            commit: self.commit,
            refused,
            recording,
        }
    }
}
