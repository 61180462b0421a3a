//! What the routes share.

use std::sync::Arc;

use ragwire::rag::{Library, LibraryLimits};
use ragwire::turn::{Timeouts, TurnGroup};
use tokio::sync::Semaphore;

use crate::cli::settings::Settings;
use crate::eve_sessions::{EveLimits, EveSessions};
use crate::extract::Extractor;
use crate::faults::Faults;
use crate::orchestrator::Orchestrator;
use crate::sessions::{SessionLimits, Sessions};
use crate::writers::Writers;

/// One server: its library, what answers from it, and its limits.
#[derive(Debug)]
pub struct App {
    /// The settings it was started with.
    pub settings: Settings,
    /// The documents.
    pub library: Arc<Library>,
    /// What answers.
    pub orchestrator: Arc<dyn Orchestrator>,
    /// What reads documents.
    pub extractor: Extractor,
    /// The turns that run.
    pub turns: TurnGroup,
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// Who is answering in them.
    pub writers: Arc<Writers>,
    /// The sessions of Eve's routes.
    pub eve_sessions: EveSessions,
    /// Places for uploads.
    pub uploads: Arc<Semaphore>,
}

impl App {
    /// From its settings and the parts that only the caller can make.
    pub fn new(
        settings: Settings,
        library: Arc<Library>,
        orchestrator: Arc<dyn Orchestrator>,
        extractor: Extractor,
    ) -> Self {
        let orchestrator = if settings.test_faults {
            Arc::new(Faults::new(orchestrator))
        } else {
            orchestrator
        };
        Self {
            turns: TurnGroup::new(settings.max_turns.0),
            sessions: Arc::new(Sessions::new(SessionLimits::from(&settings))),
            writers: Arc::default(),
            eve_sessions: EveSessions::new(EveLimits::from(&settings)),
            uploads: Arc::new(Semaphore::new(settings.max_uploads.0)),
            settings,
            library,
            orchestrator,
            extractor,
        }
    }

    /// The limits of a turn in time.
    pub fn timeouts(&self) -> Timeouts {
        Timeouts::default()
            .keep_alive(self.settings.keep_alive.0)
            .idle(self.settings.idle_timeout.0)
            .total(self.settings.turn_timeout.0)
            .write_stall(self.settings.write_timeout.0)
    }
}

/// The limits of the library.
pub fn library_limits(settings: &Settings) -> LibraryLimits {
    let mut limits = LibraryLimits::default();
    limits.max_documents = settings.max_documents.0;
    limits.max_chunks = settings.max_chunks.0;
    limits
}
