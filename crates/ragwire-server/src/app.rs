//! The state that all routes share.

use std::sync::Arc;

use ragwire::FailureKind;
use ragwire::session::{SessionLimits, Sessions};
use ragwire::turn::{Disconnect, Journal, Timeouts, TurnGroup};
use ragwire_rag::{Library, LibraryLimits};
use tokio::sync::Semaphore;

use crate::eve::EveSessions;
use crate::extract::Extractor;
use crate::faults::Faults;
use crate::followers::Followers;
use crate::orchestrator::Orchestrator;
use crate::settings::Settings;

/// The state of one server: its library, its orchestrator and its limits.
#[derive(Debug)]
pub struct App {
    /// The settings that the server was started with.
    pub settings: Settings,
    /// The documents.
    pub library: Arc<Library>,
    /// The store and the graph, which follow the library.
    pub followers: Followers,
    /// Answers questions.
    pub orchestrator: Arc<dyn Orchestrator>,
    /// Reads documents.
    pub extractor: Extractor,
    /// The running and waiting turns. A turn's lane is its session or its chat, where one question
    /// is answered at a time.
    pub turns: TurnGroup,
    /// The record of streamed turns, from which they are resumed, stopped and answered.
    pub journal: Journal,
    /// The stored sessions.
    pub sessions: Sessions,
    /// The sessions of the Eve routes.
    pub eve: EveSessions,
    /// Permits for concurrent uploads.
    pub uploads: Arc<Semaphore>,
}

impl App {
    /// Creates the state from the settings and the parts that only the caller can create.
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
            followers: Followers::new(),
            orchestrator,
            extractor,
        }
    }

    /// Sets what follows the library. The response to an upload or a removal waits up to 10 seconds
    /// for the followers.
    #[must_use]
    pub fn followers(mut self, followers: Followers) -> Self {
        self.followers = followers;
        self
    }

    /// Returns what happens to a turn after its last reader disconnects, if readers can reconnect.
    pub fn grace(&self) -> Disconnect {
        Disconnect::grace(*self.settings.disconnect_grace)
    }

    /// Returns the time limits of a turn.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts::default()
            .keep_alive(*self.settings.keep_alive)
            .idle(*self.settings.idle_timeout)
            .total(*self.settings.turn_timeout)
            .write_stall(*self.settings.write_timeout)
    }

    /// Returns `true` once the server shuts down. A full server still counts as healthy.
    pub fn is_shutting_down(&self) -> bool {
        let accepts = self.turns.check();
        accepts.is_err_and(|rejected| rejected.failure.kind == FailureKind::ShuttingDown)
    }
}

/// Returns the limits of stored sessions.
pub fn session_limits(settings: &Settings) -> SessionLimits {
    SessionLimits::default()
        .max_sessions(*settings.max_sessions)
        .max_messages(*settings.session_turns)
        .max_bytes(*settings.session_size)
        .max_age(*settings.session_age)
        .max_state_bytes(EveSessions::max_state_bytes(*settings.max_question))
}

/// Returns the limits of the library.
pub fn library_limits(settings: &Settings) -> LibraryLimits {
    let mut limits = LibraryLimits::default();
    limits.max_documents = *settings.max_documents;
    limits.max_chunks = *settings.max_chunks;
    limits
}
