//! The commands `serve` and `ingest`: open the library, index documents, serve.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ragwire::redis::RedisOptions;
use ragwire::session::{SessionError, Sessions};
use ragwire::turn::RedisError;
#[cfg(feature = "qdrant")]
use ragwire_rag::SharedLibraryOptions;
use ragwire_rag::graph::GraphIndex;
use ragwire_rag::{IndexingProgress, Library, LibraryError, LibraryLimits};
use tokio::task::{JoinHandle, JoinSet};

use crate::app::{App, Stores, library_limits, record_limits, session_limits};
use crate::engines::{Engines, EnginesError, StoreLocation};
use crate::extract::Extractor;
use crate::followers::Followers;
use crate::gateway::{Gateway, GatewayError, GatewayOptions, chain};
use crate::graph::{self, GraphStartError};
use crate::ingest::{Folders, watch};
use crate::journal;
use crate::keys::{ApiKeys, KeysError};
use crate::open_files;
use crate::orchestrator::Reference;
use crate::originals::{self, Originals};
use crate::readiness::{Readiness, Stage};
use crate::reload::{self, follow_certificate, follow_keys, load_keys};
use crate::sample;
use crate::serve::{Listening, Opener, Server, Shutdown};
use crate::settings::engines::StoreKind;
#[cfg(not(feature = "qdrant"))]
use crate::settings::engines::check::not_built;
use crate::settings::{Contradiction, Settings};
use crate::signals::{Hangups, Signals};
use crate::tls::{Tls, TlsError};

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
    #[error("--redis: {}{}", .0, redis_hint(.0))]
    Redis(#[from] RedisError),
    /// The file of API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
    /// A path given by the user does not exist. This is a typing mistake, not one bad file among
    /// many.
    #[error("cannot read {}: {reason}", path.display())]
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
        LibraryError::Damaged(_) => "; `ragwire-server repair` saves what can be read of it",
        LibraryError::Import(_) => {
            "; move library.redb away and index the documents again with --docs, or go back to the version that wrote it"
        }
        LibraryError::Folder(_) => "; name another folder with --data",
        _ => "",
    }
}

fn redis_hint(error: &RedisError) -> &'static str {
    match error {
        RedisError::Unreachable { .. } => "; start it, or correct the address",
        _ => "",
    }
}

/// The file of a library of one server.
#[cfg(feature = "qdrant")]
const LIBRARY_FILE: &str = "library.db";
/// The file of the sessions, beside that of the library.
pub(crate) const SESSIONS_FILE: &str = "sessions.redb";
/// The file of their finished turns.
pub(crate) const TURNS_FILE: &str = "turns.redb";
/// Their name space on a Redis server.
const TURNS_NAME_SPACE: &str = "turns:";

fn session_hint(error: &SessionError) -> &'static str {
    match error {
        SessionError::InUse => "; stop the other server, or choose another folder with --data",
        SessionError::Damaged(_) => {
            "; restore the file from a backup, or `ragwire-server repair` moves it away to start without sessions"
        }
        SessionError::Version { .. } => "; move the file away to start without sessions",
        _ => "",
    }
}

/// Opens the sessions on the Redis server, if there is one, otherwise those in the data folder,
/// which exists by now. Also returns how many there are, and where, for the welcome message.
async fn open_sessions(settings: &Settings) -> Result<(Stores, String), StartError> {
    let redis = settings.redis_options()?;
    let file = |name: &str| match redis {
        Some(_) => PathBuf::from("Redis"),
        None => {
            let file = settings.data.join(name);
            std::path::absolute(&file).unwrap_or(file)
        }
    };
    let open = async |name: &str, options: Option<&RedisOptions>, limits| {
        let opened = match options {
            Some(options) => Sessions::redis(options, limits).await,
            None => Sessions::open(&file(name), limits).await,
        };
        opened.map_err(|source| StartError::Sessions {
            file: file(name),
            source,
        })
    };
    let turns = match &redis {
        Some(options) => Some(options.clone().name_space(TURNS_NAME_SPACE)?),
        None => None,
    };
    let sessions = open(SESSIONS_FILE, redis.as_ref(), session_limits(settings)).await?;
    let records = open(TURNS_FILE, turns.as_ref(), record_limits(settings)).await?;
    let swept = sessions.sweep().await.map_err(|source| StartError::Sessions {
        file: file(SESSIONS_FILE),
        source,
    });
    let summary = format!("{}, in {}", swept?, file(SESSIONS_FILE).display());
    Ok((Stores { sessions, records }, summary))
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
    let limits = library_limits(settings);
    let opening = match settings.store {
        StoreKind::Memory | StoreKind::QdrantEdge => {
            let folder = settings.data.clone();
            tokio::task::spawn_blocking(move || Library::open(&folder, limits).map(Arc::new))
        }
        StoreKind::Qdrant => open_shared(settings, limits)?,
    };
    match opening.await {
        Ok(Ok(library)) => Ok(library),
        Ok(Err(error)) => Err(library_failed(settings, error)),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Opens the library that all servers of a collection share. The data folder then holds only what
/// belongs to this server.
#[cfg(feature = "qdrant")]
fn open_shared(
    settings: &Settings,
    limits: LibraryLimits,
) -> Result<JoinHandle<Result<Arc<Library>, LibraryError>>, StartError> {
    settings.check()?;
    let folder = &settings.data;
    std::fs::create_dir_all(folder).map_err(|reason| StartError::Path {
        path: folder.clone(),
        reason,
    })?;
    if folder.join(LIBRARY_FILE).exists() {
        eprintln!(
            "the library in {} is not used with --store qdrant; add its documents again with --docs or as \
             uploads",
            folder.display()
        );
    }
    let url = settings.qdrant_url.0.clone().unwrap_or_default();
    let options = SharedLibraryOptions::new(url, shared_collection(settings))
        .api_key(settings.qdrant_api_key.0.clone());
    Ok(tokio::task::spawn_blocking(move || {
        Library::shared(options, limits)
    }))
}

#[cfg(not(feature = "qdrant"))]
fn open_shared(
    _: &Settings,
    _: LibraryLimits,
) -> Result<JoinHandle<Result<Arc<Library>, LibraryError>>, StartError> {
    Err(EnginesError::from(not_built("store qdrant", "qdrant")).into())
}

/// The collection of the library, beside that of the vectors.
fn shared_collection(settings: &Settings) -> String {
    format!("{}-library", settings.qdrant_collection.as_str())
}

fn library_failed(settings: &Settings, source: LibraryError) -> StartError {
    match source {
        LibraryError::Shared(source) => {
            let collection = StoreLocation::Collection(shared_collection(settings));
            collection.error(source).into()
        }
        source => StartError::Library {
            folder: settings.data.clone(),
            source,
        },
    }
}

/// Indexes the documents that the settings name, or the sample documents into an empty library.
async fn fill_library(
    settings: &Settings,
    library: &Arc<Library>,
    extractor: &Extractor,
    originals: &Arc<Originals>,
    readiness: &Readiness,
) -> Result<(), StartError> {
    let failed = |source| library_failed(settings, source);
    if settings.docs.is_empty() {
        if library.chunk_count() == 0 {
            for (id, bytes) in sample::add(library).map_err(failed)? {
                originals.keep(&id, bytes).await;
            }
            eprintln!("no documents yet: indexed the sample library; add your own with --docs PATH");
        }
    } else {
        let started = Instant::now();
        let report = |done, total| readiness.set(Stage::Reading { done, total });
        let folders = Folders::new(settings, library, extractor, originals);
        folders.sync(report).await.map_err(failed)?.print();
        eprintln!("indexing took {:.1} s", started.elapsed().as_secs_f64());
        // The sample documents are only a placeholder for the user's own.
        sample::remove(library).map_err(failed)?;
    }
    Ok(())
}

/// Opens the folder of the original files.
async fn open_originals(settings: &Settings, library: &Arc<Library>) -> Result<Arc<Originals>, StartError> {
    let folder = settings.data.join(originals::FOLDER);
    let max_bytes = *settings.originals_size as u64;
    let opened = Originals::open(Arc::clone(library), folder.clone(), max_bytes).await;
    let opened = opened.map_err(|reason| StartError::Path { path: folder, reason });
    opened.map(Arc::new)
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
    let originals = open_originals(settings, library).await?;
    fill_library(settings, library, extractor, &originals, &Readiness::new()).await?;
    if let Some(engines) = engines {
        engines.reconcile().await?;
    }
    // With a model as extractor the server fills the graph, because only it has the models.
    if !settings.graph_model {
        let graph = graph::open(settings, library, &Engines::embedded(library)).await?;
        if let Some(graph) = &graph {
            graph::sync(settings, graph).await?;
        }
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
    if let Some(file) = settings.api_keys.as_deref() {
        // Before the models, which take long. The server reads it once more.
        ApiKeys::new(file).load()?;
    }
    let tls = Tls::load(&settings)?;
    let address = *settings.listen;
    let listening = Listening::bind(&settings).map_err(|source| StartError::Listen { address, source })?;
    let listening = listening.encrypted(tls.clone());
    let extractor = Extractor::this_program(&settings).map_err(StartError::Extractor)?;
    if let Some(options) = settings.gateway_options()? {
        return serve_gateway(settings, extractor, listening, options).await;
    }
    let engines = Arc::new(OnceLock::new());
    let served = run(listening, settings, |starting| {
        serve_library(starting, extractor, Arc::clone(&engines))
    })
    .await;
    // A model that still computes while the process exits would use freed memory. Another signal
    // skips the wait.
    if let Some(engines) = engines.get() {
        let mut signals = Signals::new().map_err(StartError::Signals)?;
        tokio::select! {
            () = Engines::shutdown(engines) => {}
            () = signals.next() => {}
        }
    }
    served
}

/// What the start of a server gets: its settings, where it listens, what it reports its progress
/// to, and what opens its routes.
struct Starting {
    settings: Settings,
    /// What a client on this machine calls.
    url: String,
    readiness: Readiness,
    opener: Opener,
    hangups: Option<Hangups>,
}

/// Opens the library, the models and the sessions, indexes the documents, and follows the library.
///
/// A library that already has documents answers questions while it reads more. An empty one refuses
/// them until it is filled, because answers from a part of the first documents would be wrong.
async fn serve_library(
    starting: Starting,
    extractor: Extractor,
    running: Arc<OnceLock<Arc<Engines>>>,
) -> Result<Infallible, StartError> {
    let Starting {
        settings,
        url,
        readiness,
        opener,
        hangups,
    } = starting;
    let journal = journal::open(&settings).await?;
    let library = open_library(&settings).await?;
    readiness.set(Stage::Models);
    let engines = Arc::new(Engines::start(&settings, &library).await?);
    let _ = running.set(Arc::clone(&engines));
    readiness.set(Stage::Opening);
    let originals = open_originals(&settings, &library).await?;
    let (stores, session_summary) = open_sessions(&settings).await?;
    let graph = graph::open(&settings, &library, &engines).await?;
    let pipeline = Arc::new(Reference::new(&library, graph.as_deref(), &engines));
    warn_about(&settings);
    let mut followers = Followers::new()
        .with(Arc::clone(&engines) as _)
        .with(Arc::clone(&originals) as _);
    if let Some(graph) = &graph {
        followers = followers.with(Arc::clone(graph) as _);
    }
    let app = App::new(
        settings.clone(),
        stores,
        Arc::clone(&library),
        pipeline,
        extractor.clone(),
        journal,
    );
    let app = app
        .followers(followers.clone())
        .originals(Arc::clone(&originals))
        .model(engines.llm.as_ref().map(|llm| llm.name().to_owned()))
        .readiness(readiness.clone());
    load_keys(&app)?;
    let app = Arc::new(app);
    let is_placeholder = !settings.docs.is_empty() && sample::is_all_of(&library);
    let mut opener = Some(opener);
    if library.chunk_count() > 0 && !is_placeholder {
        opener
            .take()
            .into_iter()
            .for_each(|opener| opener.open(Arc::clone(&app)));
    }
    readiness.set(Stage::Reading { done: 0, total: 0 });
    fill_library(&settings, &library, &extractor, &originals, &readiness).await?;
    readiness.set(Stage::Indexing { done: 0, total: 0 });
    let report = |progress: IndexingProgress| {
        readiness.set(Stage::Indexing {
            done: progress.done_chunks,
            total: progress.total_chunks,
        });
    };
    engines.reconcile_reporting(report).await?;
    if let Some(graph) = &graph {
        readiness.set(Stage::Graph);
        graph::sync(&settings, graph).await?;
    }
    opener
        .into_iter()
        .for_each(|opener| opener.open(Arc::clone(&app)));
    readiness.set(Stage::Ready);
    welcome(
        &library,
        graph.as_deref(),
        &engines,
        &session_summary,
        &settings,
        &url,
    );
    let watching = async {
        if settings.watch {
            watch(Folders::new(&settings, &library, &extractor, &originals)).await
        } else {
            std::future::pending().await
        }
    };
    tokio::select! {
        never = followers.run() => Ok(never),
        never = watching => Ok(never),
        never = follow_keys(&app, hangups) => Ok(never),
    }
}

/// Serves an orchestrator outside of this process. No library is opened.
async fn serve_gateway(
    mut settings: Settings,
    extractor: Extractor,
    listening: Listening,
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
    let orchestrator = Arc::new(gateway.clone());
    let serve = async move |starting| {
        let Starting {
            settings,
            url,
            readiness,
            opener,
            hangups,
        } = starting;
        let journal = journal::open(&settings).await?;
        // For the sessions; without the library, which creates it otherwise.
        tokio::fs::create_dir_all(&settings.data)
            .await
            .map_err(|reason| StartError::Path {
                path: settings.data.clone(),
                reason,
            })?;
        let (stores, session_summary) = open_sessions(&settings).await?;
        warn_about(&settings);
        let app = App::new(settings, stores, None, orchestrator, extractor, journal);
        load_keys(&app)?;
        let app = Arc::new(app.readiness(readiness.clone()));
        opener.open(Arc::clone(&app));
        readiness.set(Stage::Ready);
        eprintln!(
            "\n  ragwire-server answers at {url}/\n  orchestrator: {target}\n  \
             sessions: {session_summary}\n\n{}",
            first_question(&url, "What is this about?")
        );
        Ok(follow_keys(&app, hangups).await)
    };
    let served = run(listening, settings, serve).await;
    gateway.shut_down();
    served
}

/// Serves until a signal, while a separate task starts what is served. That task reads files, so
/// that connections do not wait for them.
async fn run<S>(
    listening: Listening,
    settings: Settings,
    start: impl FnOnce(Starting) -> S,
) -> Result<(), StartError>
where
    S: Future<Output = Result<Infallible, StartError>> + Send + 'static,
{
    let mut first = Signals::new().map_err(StartError::Signals)?;
    let mut second = Signals::new().map_err(StartError::Signals)?;
    // Each listener receives every signal.
    let hangups = reload::hangups(&settings).map_err(StartError::Signals)?;
    let certificate = follow_certificate(
        listening.tls(),
        reload::hangups(&settings).map_err(StartError::Signals)?,
    );
    let kill = async {
        // Every listener receives every signal, so the first one here is the one that stops the
        // server.
        second.next().await;
        second.next().await;
    };
    let (url, readiness) = (listening.url(), Readiness::new());
    // A script that starts the server with port 0 finds the port here.
    eprintln!("starting at {url}/");
    let (server, opener) = Server::starting(listening, settings.clone(), readiness.clone());
    let mut starting = JoinSet::new();
    starting.spawn(start(Starting {
        settings,
        url,
        readiness,
        opener,
        hangups,
    }));
    let shutdown = tokio::select! {
        shutdown = server.run(first.next(), kill) => shutdown,
        never = certificate => match never {},
        Some(ended) = starting.join_next() => match ended {
            Ok(Err(error)) => return Err(error),
            Ok(Ok(never)) => match never {},
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        },
    };
    // Waits for the current step, so that nothing uses the engines after them.
    starting.shutdown().await;
    match shutdown {
        Shutdown::Drained => tracing::info!("all connections have finished"),
        Shutdown::Cut(connections) => tracing::warn!(connections, "closed the remaining connections"),
    }
    Ok(())
}

fn warn_about(settings: &Settings) {
    open_files::provide(settings);
    let address = *settings.listen;
    if !address.ip().is_loopback() && settings.owner_header.is_none() && settings.api_keys.is_none() {
        tracing::warn!(%address, "anyone who can reach this address can read and change the library");
    }
    if settings.test_faults {
        tracing::warn!("test faults are enabled: questions that start with `fault:` fail on purpose");
    }
}

/// A command that asks a first question.
fn first_question(url: &str, question: &str) -> String {
    format!(
        "  curl -N {url}/v1/rag/sessions/demo/messages/stream \\\n    \
         -H 'content-type: application/json' -d '{{\"prompt\":\"{question}\"}}'\n"
    )
}

/// Prints the next steps for a new user, to stderr like everything except answers.
fn welcome(
    library: &Library,
    graph: Option<&GraphIndex>,
    engines: &Engines,
    sessions: &str,
    settings: &Settings,
    url: &str,
) {
    let location = if library.is_shared() {
        format!("the collection {}", shared_collection(settings))
    } else {
        let data = &settings.data;
        let data = std::path::absolute(data).unwrap_or_else(|_| data.clone());
        data.display().to_string()
    };
    let question = if sample::is_all_of(library) {
        sample::QUESTION
    } else {
        "What is this about?"
    };
    let graph = graph.map_or_else(
        || "none; --graph builds one (experimental)".to_owned(),
        |index| {
            let size = index.graph().size();
            format!("{} entities, {} triples", size.entities, size.triples)
        },
    );
    eprintln!(
        "\n  ragwire-server answers at {url}/\n  library: {} documents, {} chunks, in {}\n  \
         graph: {graph}\n  sessions: {sessions}\n  {}\n\n{}",
        library.document_count(),
        library.chunk_count(),
        location,
        engines.summary().join("\n  "),
        first_question(url, question),
    );
}
