//! What the routes share.

use std::sync::Arc;

use ragwire::session::{SessionLimits, Sessions};
use ragwire::turn::{Disconnect, Journal, Timeouts, TurnGroup};
use ragwire_rag::graph::GraphIndex;
use ragwire_rag::{Library, LibraryLimits};
use tokio::sync::Semaphore;

use crate::engines::Engines;
use crate::eve::EveSessions;
use crate::extract::Extractor;
use crate::faults::Faults;
use crate::orchestrator::Orchestrator;
use crate::settings::Settings;

/// One server: its library, what answers from it, and its limits.
#[derive(Debug)]
pub struct App {
    /// The settings it was started with.
    pub settings: Settings,
    /// The documents.
    pub library: Arc<Library>,
    /// What keeps the graph in step with them, where there is one.
    pub graph: Option<Arc<GraphIndex>>,
    /// What keeps the store in step with them, where there is one.
    pub engines: Option<Arc<Engines>>,
    /// What answers.
    pub orchestrator: Arc<dyn Orchestrator>,
    /// What reads documents.
    pub extractor: Extractor,
    /// The turns that run and wait. The lane of a turn is its session, or its chat: one is answered at a time there.
    pub turns: TurnGroup,
    /// What is kept of turns that stream, so that they can be read again, stopped and answered.
    pub journal: Journal,
    /// What is remembered of sessions.
    pub sessions: Sessions,
    /// What those of Eve's routes are besides.
    pub eve: EveSessions,
    /// Places for uploads.
    pub uploads: Arc<Semaphore>,
}

impl App {
    /// From its settings and the parts that only the caller can make.
    pub fn new(
        settings: Settings,
        sessions: Sessions,
        library: Arc<Library>,
        orchestrator: Arc<dyn Orchestrator>,
        extractor: Extractor,
        journal: Journal,
    ) -> Self {
        let orchestrator = if settings.test_faults {
            Arc::new(Faults::new(orchestrator))
        } else {
            orchestrator
        };
        Self {
            eve: EveSessions::new(sessions.clone(), journal.clone()),
            turns: TurnGroup::builder()
                .max_active(*settings.max_turns)
                .max_queued(*settings.max_queued)
                .queue_timeout(*settings.queue_timeout)
                .max_per_owner(1)
                .build(),
            journal,
            sessions,
            uploads: Arc::new(Semaphore::new(*settings.max_uploads)),
            settings,
            library,
            graph: None,
            engines: None,
            orchestrator,
            extractor,
        }
    }

    /// Keeps this graph in step with the library: a document that was added or removed is in it, or out of it, when the response says so.
    #[must_use]
    pub fn graph(mut self, graph: Option<Arc<GraphIndex>>) -> Self {
        self.graph = graph;
        self
    }

    /// Keeps their store in step with the library: a document that was added is in it when the response says so, or soon after.
    #[must_use]
    pub fn engines(mut self, engines: Arc<Engines>) -> Self {
        self.engines = Some(engines);
        self
    }

    /// What becomes of a turn whose readers can come back, when the last one has gone.
    pub fn grace(&self) -> Disconnect {
        Disconnect::grace(*self.settings.disconnect_grace)
    }

    /// The limits of a turn in time.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts::default()
            .keep_alive(*self.settings.keep_alive)
            .idle(*self.settings.idle_timeout)
            .total(*self.settings.turn_timeout)
            .write_stall(*self.settings.write_timeout)
    }
}

/// How much is remembered of sessions.
pub fn session_limits(settings: &Settings) -> SessionLimits {
    SessionLimits::default()
        .max_sessions(*settings.max_sessions)
        .max_messages(*settings.session_turns)
        .max_bytes(*settings.session_size)
        .max_age(*settings.session_age)
        .max_state_bytes(EveSessions::max_state_bytes(*settings.max_question))
}

/// The limits of the library.
pub fn library_limits(settings: &Settings) -> LibraryLimits {
    let mut limits = LibraryLimits::default();
    limits.max_documents = *settings.max_documents;
    limits.max_chunks = *settings.max_chunks;
    limits
}
