//! The graph beside the library: opened at start, brought in step with the documents, and kept so.
//!
//! What it holds is found by patterns, in the time that a document takes anyway, or by the language model (`--graph-model`), which takes as long as
//! an answer for each passage. `--graph=false` leaves it alone: the file stays as it is.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ragwire_rag::Library;
use ragwire_rag::graph::{
    EntityNames, ExtractGraph, Graph, GraphError, GraphIndex, GraphIndexError, GraphRoom, ModelExtractor,
    Patterns, SyncReport,
};

use crate::engines::Engines;
use crate::settings::Settings;

/// Why there is no graph.
#[derive(Debug, thiserror::Error)]
#[error("graph in {}: {source}{}", file.display(), hint(source))]
pub struct GraphStartError {
    /// Its file.
    file: PathBuf,
    /// Why.
    source: GraphIndexError,
}

fn hint(error: &GraphIndexError) -> &'static str {
    match error {
        GraphIndexError::Graph(GraphError::InUse) => {
            "; stop the other server, or choose another folder with --data"
        }
        GraphIndexError::Graph(
            GraphError::Damaged(_) | GraphError::Version { .. } | GraphError::Storage(_),
        ) => "; move the file away, and the graph is made anew",
        _ => "",
    }
}

/// Opens the graph of the data folder, and brings it in step with the library; nothing where the settings want none.
///
/// # Errors
///
/// The file cannot be used, or the library not be read.
pub async fn open(
    settings: &Settings,
    library: &Arc<Library>,
    engines: &Engines,
) -> Result<Option<Arc<GraphIndex>>, GraphStartError> {
    if !settings.graph {
        return Ok(None);
    }
    let folder = settings.data.clone();
    let failed = |source: GraphIndexError| {
        let file = folder.join(Graph::FILE_NAME);
        let file = std::path::absolute(&file).unwrap_or(file);
        GraphStartError { file, source }
    };
    let opening = tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || Graph::open(&folder, GraphRoom::default())
    });
    let graph = match opening.await {
        Ok(opened) => Arc::new(opened.map_err(|error| failed(error.into()))?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    let index = index(settings, library, graph, engines);
    let started = Instant::now();
    let synced = index.sync().await.map_err(failed)?;
    tell(&synced);
    if synced.added > 0 {
        let seconds = started.elapsed().as_secs_f64();
        let documents = synced.added;
        if std::io::stderr().is_terminal() || seconds > 1.0 {
            eprintln!("reading {documents} documents into the graph took {seconds:.1} s");
        }
    }
    Ok(Some(index))
}

/// What the reference server keeps in step with what: read by a model where the settings want that, and with names that are found by their
/// meaning where there is an embedder.
pub fn index(
    settings: &Settings,
    library: &Arc<Library>,
    graph: Arc<Graph>,
    engines: &Engines,
) -> Arc<GraphIndex> {
    let extractor: Arc<dyn ExtractGraph> = match &engines.llm {
        Some(llm) if settings.graph_model => Arc::new(ModelExtractor::new(Arc::clone(llm))),
        _ => Arc::new(Patterns::default()),
    };
    let index = GraphIndex::new(Arc::clone(library), Arc::clone(&graph), extractor);
    let embedder = engines.embedder.as_ref();
    Arc::new(match embedder {
        Some(embedder) => index.names(EntityNames::new(graph, Arc::clone(embedder))),
        None => index,
    })
}

/// Brings the graph in step, after a change of the library. The change is done whatever becomes of the graph, so a failure is only logged;
/// the next change makes it good.
pub async fn keep_in_step(index: Option<&GraphIndex>) {
    let Some(index) = index else { return };
    told(index.sync().await);
}

/// Keeps the graph in step with whatever changes the library, also where nobody waited for the end of the change.
pub async fn follow(index: Option<&GraphIndex>) -> Infallible {
    if let Some(index) = index {
        index.follow(told).await;
    }
    std::future::pending().await
}

fn told(synced: Result<SyncReport, GraphIndexError>) {
    match synced {
        Ok(synced) => tell(&synced),
        Err(error) => tracing::error!(
            error = &error as &dyn std::error::Error,
            "the graph is not in step with the library"
        ),
    }
}

fn tell(synced: &SyncReport) {
    if !synced.no_room.is_empty() {
        tracing::warn!(
            documents = synced.no_room.len(),
            "the graph is full; graph-rag does not know all documents"
        );
    }
}
