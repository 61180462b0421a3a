//! The commands `serve` and `ingest`: open the library, index documents, serve.

mod error;
mod indexing;
mod stores;
mod welcome;

use std::convert::Infallible;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use ragwire_rag::IndexingProgress;
use tokio::task::JoinSet;

pub use self::error::StartError;
use self::indexing::fill_library;
pub use self::indexing::ingest;
pub(crate) use self::stores::{SESSIONS_FILE, TURNS_FILE};
use self::stores::{open_library, open_originals, open_sessions};
use self::welcome::{first_question, warn_about, welcome};
use crate::app::App;
use crate::engines::Engines;
use crate::extract::Extractor;
use crate::followers::Followers;
use crate::gateway::{Gateway, GatewayOptions};
use crate::graph;
use crate::ingest::{Folders, watch};
use crate::journal;
use crate::keys::ApiKeys;
use crate::orchestrator::Reference;
use crate::output::report_line;
use crate::readiness::{Readiness, Stage};
use crate::reload::{self, follow_certificate, follow_keys, load_keys};
use crate::sample;
use crate::serve::{Listening, Opener, Server, Shutdown};
use crate::settings::Settings;
use crate::signals::{Hangups, Signals};
use crate::tls::Tls;

/// Runs the command `serve`.
pub async fn serve(settings: Settings) -> ExitCode {
    match try_serve(settings).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &StartError) -> ExitCode {
    report_line!("error: {error}");
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
    let listening = listening.encrypted(tls);
    let extractor = Extractor::this_program(&settings).map_err(StartError::Extractor)?;
    extractor.check().await?;
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
    let program = match &options {
        GatewayOptions::Http(http) => http.uri.authority().map_or_else(String::new, ToString::to_string),
        // Its arguments may be secret.
        GatewayOptions::Process(process) => process.command.first().cloned().unwrap_or_default(),
    };
    let gateway = Gateway::start(options).map_err(|source| StartError::Orchestrator {
        target: program,
        source,
    })?;
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
        report_line!(
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
    report_line!("starting at {url}/");
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
