//! The state that all routes share.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use ragwire::orchestrator::FILTER;
use ragwire::session::{SessionLimits, Sessions};
use ragwire::turn::{Journal, Timeouts, TurnGroup};
use ragwire::{FailureKind, Orchestrator};
use ragwire_endpoints::{EndpointLimits, Endpoints, Refusal, Service, owner_header};
use ragwire_rag::{Library, LibraryLimits};
use tokio::sync::Semaphore;

use crate::connections::OpenConnections;
use crate::dependencies::Dependencies;
use crate::disk::Disk;
use crate::extract::Extractor;
use crate::faults::Faults;
use crate::followers::Followers;
use crate::keys::{ApiKeys, Caller};
use crate::metrics::Metrics;
use crate::originals::Originals;
use crate::readiness::Readiness;
use crate::settings::Settings;
use crate::trace::Tracing;

/// The state of one server: its library, its endpoints and its limits.
#[derive(Debug)]
pub struct App {
    /// The settings that the server was started with.
    pub settings: Settings,
    /// The documents; `None` if an orchestrator outside of this process answers.
    pub library: Option<Arc<Library>>,
    /// The files of the documents; `None` if they are not kept.
    pub originals: Option<Arc<Originals>>,
    /// The store, the graph and the originals, which follow the library.
    pub followers: Followers,
    /// The routes of all protocols.
    pub endpoints: Service,
    /// The disk of the data folder.
    pub disk: Disk,
    /// Reads documents.
    pub extractor: Extractor,
    /// The running and waiting turns. A turn's lane is its session or its chat, where one question
    /// is answered at a time.
    pub turns: TurnGroup,
    /// The record of streamed turns, from which they are resumed, stopped and answered.
    pub journal: Journal,
    /// The model that writes the answers, if one does.
    pub model: Option<String>,
    /// The stored conversations.
    pub stores: Stores,
    /// The API keys; `None` if requests need none.
    pub keys: Option<Arc<ApiKeys>>,
    /// The figures of the server.
    pub metrics: Arc<Metrics>,
    /// What traces the turns.
    pub tracing: Tracing,
    /// The open connections, once the server runs.
    pub(crate) connections: OnceLock<OpenConnections>,
    /// What the server still reads or indexes.
    pub readiness: Readiness,
    /// The servers that this one needs.
    pub dependencies: Dependencies,
    /// Permits for concurrent uploads.
    pub uploads: Arc<Semaphore>,
}

/// The stores of conversations.
#[derive(Clone, Debug)]
pub struct Stores {
    /// The sessions.
    pub sessions: Sessions,
    /// Their finished turns, with the limits of [`record_limits`].
    pub records: Sessions,
}

impl Stores {
    /// Creates stores in memory, as the settings limit them.
    pub fn in_memory(settings: &Settings) -> Self {
        Self {
            sessions: Sessions::in_memory(session_limits(settings)),
            records: Sessions::in_memory(record_limits(settings)),
        }
    }
}

impl App {
    /// Creates the state from the settings and the parts that only the caller can create.
    pub fn new(
        settings: Settings,
        stores: Stores,
        library: impl Into<Option<Arc<Library>>>,
        orchestrator: Arc<dyn Orchestrator>,
        extractor: Extractor,
        journal: Journal,
    ) -> Self {
        let library = library.into();
        let orchestrator = if settings.test_faults {
            Arc::new(Faults::new(orchestrator))
        } else {
            orchestrator
        };
        let tracing = Tracing::new(&settings);
        let turns = TurnGroup::builder()
            .max_active(*settings.max_turns)
            .max_queued(*settings.max_queued)
            .queue_timeout(*settings.queue_timeout)
            .max_per_owner(1)
            .max_active_per_client(settings.client_share.of(*settings.max_turns))
            .max_queued_per_client(settings.client_share.of(*settings.max_queued))
            .build();
        let limits = EndpointLimits::default()
            .max_question_bytes(*settings.max_question)
            .body_timeout(*settings.body_timeout)
            .min_body_rate(*settings.min_body_rate)
            .max_body_memory(*settings.max_body_memory)
            .client_share(*settings.client_share)
            .pad_to(*settings.pad_to)
            .max_sockets(*settings.max_connections);
        let metrics = Arc::new(Metrics::new());
        let mut endpoints = Endpoints::new(tracing.of(orchestrator))
            .observer(tracing.observer(&metrics))
            .journal(journal.clone())
            .sessions(stores.sessions.clone())
            .records(stores.records.clone())
            .turns(turns.clone())
            .limits(limits)
            .timeouts(timeouts(&settings))
            .disconnect_grace(*settings.disconnect_grace)
            .pass_headers(settings.passed_headers());
        for origin in &settings.allow_origin {
            endpoints = endpoints.allow_origin(origin);
        }
        for host in &settings.allow_host {
            endpoints = endpoints.allow_host(host);
        }
        if settings.orchestrator.is_some() {
            // Whether it reads them is the orchestrator's business.
            endpoints = endpoints.attachments();
        }
        if library.is_some() {
            // OpenAI's protocols and Ollama's refuse members that they do not know.
            endpoints = endpoints.openai_parameters([FILTER]);
        }
        let keys = settings
            .api_keys
            .as_deref()
            .map(|file| Arc::new(ApiKeys::new(file)));
        if keys.is_some() {
            // Public routes have no caller.
            endpoints =
                endpoints.owner(|head| Ok(head.extensions.get::<Caller>().map(|caller| caller.0.clone())));
        } else if let Some(header) = settings.owner_header.as_ref() {
            endpoints = endpoints.owner(owner_header(header.clone()));
        } else if has_one_user(&settings) {
            endpoints = endpoints.list_anonymous();
        }
        Self {
            keys,
            metrics,
            tracing,
            connections: OnceLock::new(),
            endpoints: endpoints.build(),
            turns,
            journal,
            stores,
            model: None,
            uploads: Arc::new(Semaphore::new(*settings.max_uploads)),
            dependencies: Dependencies::new(&settings),
            disk: Disk::new(settings.data.clone()),
            settings,
            library,
            originals: None,
            followers: Followers::new(),
            readiness: Readiness::ready(),
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

    /// Sets what reports the progress of the start. By default the server is ready.
    #[must_use]
    pub fn readiness(mut self, readiness: Readiness) -> Self {
        self.readiness = readiness;
        self
    }

    /// Sets where the files of the documents are kept.
    #[must_use]
    pub fn originals(mut self, originals: Arc<Originals>) -> Self {
        self.originals = Some(originals);
        self
    }

    /// Sets the name of the model that writes the answers.
    #[must_use]
    pub fn model(mut self, name: Option<String>) -> Self {
        self.model = name;
        self
    }

    /// Returns the documents.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] of a server without documents.
    pub fn library(&self) -> Result<&Arc<Library>, Refusal> {
        self.library.as_ref().ok_or_else(|| {
            Refusal::permanent(
                StatusCode::NOT_FOUND,
                "no_library",
                "This server has no documents: an orchestrator outside of it answers (--orchestrator).",
            )
        })
    }

    /// Returns whether something could not be stored because the disk is full, and cannot be stored
    /// yet.
    pub async fn is_disk_full(&self) -> bool {
        let stores = &self.stores;
        let is_suspected = stores.sessions.is_out_of_space() || stores.records.is_out_of_space();
        self.disk.is_full(is_suspected).await
    }

    /// Returns `true` once the server shuts down. A full server still counts as healthy.
    pub fn is_shutting_down(&self) -> bool {
        let accepts = self.turns.check();
        accepts.is_err_and(|rejected| rejected.failure.kind == FailureKind::ShuttingDown)
    }
}

/// Returns whether only programs of this machine can call the server. Behind a proxy a server has a
/// host name, and then everybody who reaches the proxy is the same anonymous caller.
fn has_one_user(settings: &Settings) -> bool {
    settings.listen.ip().is_loopback() && settings.allow_host.is_empty() && settings.allow_origin.is_empty()
}

/// Returns the time limits of a turn.
fn timeouts(settings: &Settings) -> Timeouts {
    Timeouts::default()
        .keep_alive(*settings.keep_alive)
        .idle(*settings.idle_timeout)
        .total(*settings.turn_timeout)
        .write_stall(*settings.write_timeout)
}

/// Returns the limits of stored sessions.
pub fn session_limits(settings: &Settings) -> SessionLimits {
    SessionLimits::default()
        .max_sessions(*settings.max_sessions)
        .max_messages(*settings.session_turns)
        .max_bytes(*settings.session_size)
        .max_age(*settings.session_age)
        .max_state_bytes(Endpoints::max_state_bytes(*settings.max_question))
}

/// Returns the limits of the finished turns of the sessions.
pub fn record_limits(settings: &Settings) -> SessionLimits {
    Endpoints::record_limits(&session_limits(settings))
}

/// Returns the limits of the library.
pub fn library_limits(settings: &Settings) -> LibraryLimits {
    let mut limits = LibraryLimits::default();
    limits.max_documents = *settings.max_documents;
    limits.max_chunks = *settings.max_chunks;
    limits
}
