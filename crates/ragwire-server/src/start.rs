//! The commands `serve` and `ingest`: open the library, index documents, serve.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ragwire::session::{SessionError, Sessions};
use ragwire::turn::{Journal, RedisError};
use ragwire_rag::graph::GraphIndex;
use ragwire_rag::{Library, LibraryError};

use crate::app::{App, library_limits, session_limits};
use crate::engines::{Engines, EnginesError};
use crate::extract::Extractor;
use crate::followers::Followers;
use crate::gateway::{Gateway, GatewayError, GatewayOptions, chain};
use crate::graph::{self, GraphStartError};
use crate::ingest::{Summary, ingest as ingest_files};
use crate::journal;
use crate::orchestrator::Reference;
use crate::sample;
use crate::serve::{Server, Shutdown};
use crate::settings::{Contradiction, Settings};

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The library could not be opened or filled.
    #[error("library in {}: {source}{}", folder.display(), hint(source))]
    Library {
        /// Its folder.
        folder: PathBuf,
        /// The cause.
        source: LibraryError,
    },
    /// The sessions could not be opened.
    #[error("sessions in {}: {source}{}", file.display(), session_hint(source))]
    Sessions {
        /// Their file.
        file: PathBuf,
        /// The cause.
        source: SessionError,
    },
    /// The graph could not be opened or updated.
    #[error(transparent)]
    Graph(#[from] GraphStartError),
    /// A model or the store did not start.
    #[error(transparent)]
    Engines(#[from] EnginesError),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The program cannot locate its own executable.
    #[error("cannot start the process that reads documents: {0}")]
    Extractor(#[source] std::io::Error),
    /// The Redis server cannot be reached, or is not durable enough.
    #[error("--redis: {0}")]
    Redis(#[from] RedisError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
    /// A path given by the user does not exist. This is a typing mistake, not one bad file among
    /// many.
    #[error("{}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The cause.
        reason: std::io::Error,
    },
    /// The orchestrator outside of this process cannot be prepared or started.
    #[error("orchestrator: {}", chain(.0))]
    Orchestrator(#[source] GatewayError),
    /// The settings contradict each other.
    #[error(transparent)]
    Settings(#[from] Contradiction),
    /// `ingest` with an orchestrator.
    #[error("an orchestrator answers in place of the library; ingest without --orchestrator")]
    NoLibrary,
    /// `ingest` without paths.
    #[error("no paths to index; name files or folders")]
    NoPaths,
}

fn hint(error: &LibraryError) -> &'static str {
    match error {
        LibraryError::InUse => "; stop it, or choose another folder with --data",
        LibraryError::Damaged(_) => {
            "; restore library.db from a backup, or move it away and index the documents again with --docs"
        }
        LibraryError::Import(_) => {
            "; move library.redb away and index the documents again with --docs, or go back to the version that wrote it"
        }
        _ => "",
    }
}

/// The file of the sessions, beside that of the library.
const SESSIONS_FILE: &str = "sessions.redb";

fn session_hint(error: &SessionError) -> &'static str {
    match error {
        SessionError::InUse => "; stop the other server, or choose another folder with --data",
        SessionError::Damaged(_) | SessionError::Version { .. } => {
            "; move the file away to start without sessions"
        }
        _ => "",
    }
}

/// Opens the sessions on the Redis server, if there is one, otherwise those in the data folder,
/// which exists by now. Also returns how many there are, and where, for the welcome message.
async fn open_sessions(settings: &Settings) -> Result<(Sessions, String), StartError> {
    let limits = session_limits(settings);
    let (sessions, file) = match settings.redis_options()? {
        Some(options) => (Sessions::redis(&options, limits).await, PathBuf::from("Redis")),
        None => {
            let file = settings.data.join(SESSIONS_FILE);
            let opened = Sessions::open(&file, limits).await;
            (opened, std::path::absolute(&file).unwrap_or(file))
        }
    };
    let failed = |source| StartError::Sessions {
        file: file.clone(),
        source,
    };
    let sessions = sessions.map_err(failed)?;
    let count = sessions.sweep().await.map_err(failed)?;
    Ok((sessions, format!("{count}, in {}", file.display())))
}

/// Opens the library without indexing anything.
///
/// # Errors
///
/// [`StartError`].
pub async fn open_library(settings: &Settings) -> Result<Arc<Library>, StartError> {
    for path in &settings.docs {
        std::fs::metadata(path).map_err(|reason| StartError::Path {
            path: path.clone(),
            reason,
        })?;
    }
    let folder = settings.data.clone();
    let limits = library_limits(settings);
    let opening = tokio::task::spawn_blocking(move || Library::open(&folder, limits));
    match opening.await {
        Ok(Ok(library)) => Ok(Arc::new(library)),
        Ok(Err(error)) => Err(library_failed(settings, error)),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

fn library_failed(settings: &Settings, source: LibraryError) -> StartError {
    StartError::Library {
        folder: settings.data.clone(),
        source,
    }
}

/// Indexes the documents that the settings name, or the sample documents into an empty library.
///
/// # Errors
///
/// [`StartError`].
pub async fn fill_library(
    settings: &Settings,
    library: &Arc<Library>,
    extractor: &Extractor,
) -> Result<(), StartError> {
    let failed = |source| library_failed(settings, source);
    if settings.docs.is_empty() {
        if library.chunk_count() == 0 {
            sample::add(library).map_err(failed)?;
            eprintln!("no documents yet: indexed the sample library; add your own with --docs PATH");
        }
    } else {
        let started = Instant::now();
        index(settings, library, extractor).await.print();
        eprintln!("indexing took {:.1} s", started.elapsed().as_secs_f64());
        // The sample documents are only a placeholder for the user's own.
        sample::remove(library).map_err(failed)?;
    }
    Ok(())
}

async fn index(settings: &Settings, library: &Arc<Library>, extractor: &Extractor) -> Summary {
    ingest_files(library, extractor, &settings.docs, *settings.max_upload_size).await
}

/// Runs the command `ingest`. Fails if the library is empty afterwards.
pub async fn ingest(settings: Settings) -> ExitCode {
    if settings.orchestrator.is_some() {
        return fail(&StartError::NoLibrary);
    }
    if settings.docs.is_empty() {
        return fail(&StartError::NoPaths);
    }
    let extractor = match Extractor::this_program(&settings) {
        Ok(extractor) => extractor,
        Err(error) => return fail(&StartError::Extractor(error)),
    };
    match try_ingest(&settings, &extractor).await {
        Ok(library) if library.chunk_count() == 0 => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

async fn try_ingest(settings: &Settings, extractor: &Extractor) -> Result<Arc<Library>, StartError> {
    let library = open_library(settings).await?;
    let engines = Engines::start_indexing(settings, &library).await?;
    let indexed = fill_all(settings, &library, extractor, engines.as_ref()).await;
    if let Some(engines) = engines {
        engines.shutdown().await;
    }
    indexed.map(|()| library)
}

async fn fill_all(
    settings: &Settings,
    library: &Arc<Library>,
    extractor: &Extractor,
    engines: Option<&Engines>,
) -> Result<(), StartError> {
    fill_library(settings, library, extractor).await?;
    if let Some(engines) = engines {
        engines.reconcile().await?;
    }
    // With a model as extractor the server fills the graph, because only it has the models.
    if !settings.graph_model {
        graph::open(settings, library, &Engines::embedded(library)).await?;
    }
    Ok(())
}

/// Runs the command `serve`.
pub async fn serve(settings: Settings) -> ExitCode {
    match try_serve(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &StartError) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}

async fn try_serve(settings: Settings) -> Result<(), StartError> {
    let extractor = Extractor::this_program(&settings).map_err(StartError::Extractor)?;
    // Before the library, which may take minutes to index.
    let journal = journal::open(&settings).await?;
    if let Some(options) = settings.gateway_options()? {
        return serve_gateway(settings, extractor, journal, options).await;
    }
    let library = open_library(&settings).await?;
    let engines = Arc::new(Engines::start(&settings, &library).await?);
    let served = serve_with(settings, extractor, journal, library, &engines).await;
    // A model that still computes while the process exits would use freed memory. Another signal
    // skips the wait.
    let mut signals = Signals::new().map_err(StartError::Signals)?;
    tokio::select! {
        () = engines.shutdown() => {}
        () = signals.next() => {}
    }
    served
}

async fn serve_with(
    settings: Settings,
    extractor: Extractor,
    journal: Journal,
    library: Arc<Library>,
    engines: &Arc<Engines>,
) -> Result<(), StartError> {
    fill_library(&settings, &library, &extractor).await?;
    let (sessions, session_summary) = open_sessions(&settings).await?;
    engines.reconcile().await?;
    let graph = graph::open(&settings, &library, engines).await?;
    let pipeline = Arc::new(Reference::new(&library, graph.as_deref(), engines));
    let data = settings.data.clone();
    warn_about(&settings);
    let app = App::new(
        settings,
        sessions,
        Arc::clone(&library),
        pipeline,
        extractor,
        journal,
    );
    let mut followers = Followers::new().with(Arc::clone(engines) as _);
    if let Some(graph) = &graph {
        followers = followers.with(Arc::clone(graph) as _);
    }
    let app = Arc::new(app.followers(followers.clone()));
    run(app, &followers, |address| {
        welcome(
            &library,
            graph.as_deref(),
            engines,
            &session_summary,
            &data,
            address,
        );
    })
    .await
}

/// Serves an orchestrator outside of this process. No library is opened.
async fn serve_gateway(
    mut settings: Settings,
    extractor: Extractor,
    journal: Journal,
    options: GatewayOptions,
) -> Result<(), StartError> {
    let target = match &options {
        GatewayOptions::Http(http) => http.uri.to_string(),
        GatewayOptions::Process(process) => {
            // Further questions wait in the waiting list, which reports their position.
            settings.max_turns.0 = settings.max_turns.0.min(process.workers);
            format!(
                "{}, up to {} processes",
                process.command.join(" "),
                process.workers
            )
        }
    };
    let gateway = Gateway::start(options).map_err(StartError::Orchestrator)?;
    // For the sessions; without the library, which creates it otherwise.
    tokio::fs::create_dir_all(&settings.data)
        .await
        .map_err(|reason| StartError::Path {
            path: settings.data.clone(),
            reason,
        })?;
    let (sessions, session_summary) = open_sessions(&settings).await?;
    warn_about(&settings);
    let orchestrator = Arc::new(gateway.clone());
    let app = App::new(settings, sessions, None, orchestrator, extractor, journal);
    let followers = Followers::new();
    let serving = run(Arc::new(app), &followers, |address| {
        eprintln!(
            "\n  ragwire-server answers at http://{address}/\n  orchestrator: {target}\n  \
             sessions: {session_summary}\n\n{}",
            first_question(address, "What is this about?")
        );
    });
    let served = serving.await;
    gateway.shut_down();
    served
}

fn warn_about(settings: &Settings) {
    let address = *settings.listen;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "anyone who can reach this address can read and change the library");
    }
    if settings.test_faults {
        tracing::warn!("test faults are enabled: questions that start with `fault:` fail on purpose");
    }
}

/// Serves until a signal. Calls `welcome` with the address listened on.
async fn run(
    app: Arc<App>,
    followers: &Followers,
    welcome: impl FnOnce(SocketAddr),
) -> Result<(), StartError> {
    let address = *app.settings.listen;
    let server = Server::bind(app).map_err(|source| StartError::Listen { address, source })?;
    let mut first = Signals::new().map_err(StartError::Signals)?;
    let mut second = Signals::new().map_err(StartError::Signals)?;
    welcome(server.address());
    let kill = async {
        // Every listener receives every signal, so the first one here is the one that stops the
        // server.
        second.next().await;
        second.next().await;
    };
    let serving = server.run(first.next(), kill);
    let shutdown = tokio::select! {
        shutdown = serving => shutdown,
        never = followers.run() => match never {},
    };
    match shutdown {
        Shutdown::Drained => tracing::info!("all connections have finished"),
        Shutdown::Cut(connections) => tracing::warn!(connections, "closed the remaining connections"),
    }
    Ok(())
}

/// A command that asks a first question.
fn first_question(address: SocketAddr, question: &str) -> String {
    format!(
        "  curl -N http://{address}/v1/rag/sessions/demo/messages/stream \\\n    \
         -H 'content-type: application/json' -d '{{\"prompt\":\"{question}\"}}'\n"
    )
}

/// Prints the next steps for a new user, to stderr like everything except answers.
fn welcome(
    library: &Library,
    graph: Option<&GraphIndex>,
    engines: &Engines,
    sessions: &str,
    data: &std::path::Path,
    address: SocketAddr,
) {
    let data = std::path::absolute(data).unwrap_or_else(|_| data.to_owned());
    let question = if sample::is_all_of(library) {
        sample::QUESTION
    } else {
        "What is this about?"
    };
    let graph = graph.map_or_else(
        || "none (--graph=false)".to_owned(),
        |index| {
            let size = index.graph().size();
            format!("{} entities, {} triples", size.entities, size.triples)
        },
    );
    eprintln!(
        "\n  ragwire-server answers at http://{address}/\n  library: {} documents, {} chunks, in {}\n  \
         graph: {graph}\n  sessions: {sessions}\n  {}\n\n{}",
        library.list().len(),
        library.chunk_count(),
        data.display(),
        engines.summary().join("\n  "),
        first_question(address, question),
    );
}

/// Ctrl-C and, on unix, SIGTERM: the first stops the server gracefully, the second at once.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    }
}
