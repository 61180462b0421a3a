//! The orchestrator: it plays up to a given state, waits for the test, and reports when it is
//! dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ragwire::event::{Reasoning, Search};
use ragwire::turn::{Ask, BoxError};
use ragwire::{Metadata, Sink};
use tokio::sync::oneshot;

/// The number of pieces of [`PIECE_BYTES`] that an orchestrator sends: more than all buffers up to
/// the client can store.
pub(crate) const PIECES: usize = 400;
pub(crate) const PIECE_BYTES: usize = 1024;
/// The question's ID and its answer.
pub(crate) const ASK: &str = "go-on";
pub(crate) const APPROVE: &str = "Approve";

/// The progress of the turn at the disconnect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    BeforeCommit,
    Events,
    Text,
    Human,
}

impl State {
    pub(crate) const ALL: [Self; 4] = [Self::BeforeCommit, Self::Events, Self::Text, Self::Human];
}

/// Reports when the orchestrator is dropped.
struct DropFlag(Arc<AtomicBool>);

impl Drop for DropFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The orchestrator's side.
pub(crate) struct Role {
    state: State,
    gone: DropFlag,
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
    finish: oneshot::Receiver<()>,
    sent: Arc<AtomicUsize>,
}

/// The test's side.
pub(crate) struct Part {
    gone: Arc<AtomicBool>,
    /// Signals that the orchestrator has reached its state.
    pub(crate) reached: oneshot::Receiver<()>,
    /// Makes it send its pieces. One that waits for a human also needs the answer.
    pub(crate) go: Option<oneshot::Sender<()>>,
    /// Lets it complete.
    pub(crate) finish: Option<oneshot::Sender<()>>,
    sent: Arc<AtomicUsize>,
}

impl Part {
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// Returns the number of pieces that it could send.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

pub(crate) fn cast(state: State) -> (Part, Role) {
    let (gone, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let (is_reached, reached) = oneshot::channel();
    let (go, may_go) = oneshot::channel();
    let (finish, may_finish) = oneshot::channel();
    let role = Role {
        state,
        gone: DropFlag(Arc::clone(&gone)),
        reached: is_reached,
        go: may_go,
        finish: may_finish,
        sent: Arc::clone(&sent),
    };
    let part = Part {
        gone,
        reached,
        go: Some(go),
        finish: Some(finish),
        sent,
    };
    (part, role)
}

impl Role {
    pub(crate) async fn play(self, sink: Sink) -> Result<Metadata, BoxError> {
        let Self {
            state,
            gone: _gone,
            reached,
            go,
            finish,
            sent,
        } = self;
        if state != State::BeforeCommit {
            sink.send(Search::new("bm25")).await?;
        }
        if state == State::Text {
            sink.send("Forty-two.").await?;
        }
        if state == State::Human {
            let ask = Ask::approval("Go on?")
                .request_id(ASK)
                .within(Duration::from_secs(3_600));
            // The question is sent when the first of the two is first polled.
            let (answer, _) = tokio::join!(sink.ask(ask), async move { reached.send(()) });
            answer?;
        } else {
            let _ = reached.send(());
        }
        // If the test drops its side, the signal never arrives.
        if go.await.is_err() {
            std::future::pending::<()>().await;
        }
        for _ in 0..PIECES {
            match state {
                State::Text => sink.send("x".repeat(PIECE_BYTES)).await?,
                _ => sink.send(Reasoning::new("x".repeat(PIECE_BYTES))).await?,
            }
            sent.fetch_add(1, Ordering::SeqCst);
        }
        if finish.await.is_err() {
            std::future::pending::<()>().await;
        }
        Ok(Metadata::default())
    }
}
