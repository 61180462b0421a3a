//! The graph beside the library: opened at start and brought in step with the documents.
//!
//! Patterns extract it while a document is indexed, at no noticeable cost. The language model
//! (`--graph-model`) takes as long as an answer for each passage. Without `--graph` and `--graph-model`
//! the file is not opened and does not change.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ragwire_rag::Library;
use ragwire_rag::graph::{
    EntityNames, ExtractGraph, Graph, GraphError, GraphIndex, GraphIndexError, GraphRoom, ModelExtractor,
    Patterns,
};

use crate::engines::Engines;
use crate::output::report_line;
use crate::settings::Settings;

/// A graph that cannot be opened or updated.
#[derive(Debug, thiserror::Error)]
#[error("graph in {}: {source}{}", file.display(), hint(source))]
pub struct GraphStartError {
    /// Its file.
    file: PathBuf,
    /// The cause.
    source: GraphIndexError,
}

fn hint(error: &GraphIndexError) -> &'static str {
    match error {
        GraphIndexError::Graph(GraphError::InUse) => {
            "; stop the other server, or choose another folder with --data"
        }
        GraphIndexError::Graph(
            GraphError::Damaged(_) | GraphError::Version { .. } | GraphError::Storage(_),
        ) => "; move the file away to rebuild the graph",
        _ => "",
    }
}

/// Opens the graph in the data folder; [`sync`] brings it in step with the library. Returns `None`
/// without `--graph` and `--graph-model`.
///
/// # Errors
///
/// Fails if the file cannot be used.
pub async fn open(
    settings: &Settings,
    library: &Arc<Library>,
    engines: &Engines,
) -> Result<Option<Arc<GraphIndex>>, GraphStartError> {
    if !settings.graph && !settings.graph_model {
        return Ok(None);
    }
    let folder = settings.data.clone();
    let opening = tokio::task::spawn_blocking({
        let folder = folder.clone();
        move || Graph::open(&folder, GraphRoom::default())
    });
    let graph = match opening.await {
        Ok(opened) => Arc::new(opened.map_err(|error| failed(settings, error.into()))?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    Ok(Some(index(settings, library, graph, engines)))
}

fn failed(settings: &Settings, source: GraphIndexError) -> GraphStartError {
    let file = settings.data.join(Graph::FILE_NAME);
    let file = std::path::absolute(&file).unwrap_or(file);
    GraphStartError { file, source }
}

/// Brings the graph in step with the library.
///
/// # Cancel safety
///
/// As [`GraphIndex::sync`].
///
/// # Errors
///
/// Fails if the file cannot be used or the library cannot be read.
pub async fn sync(settings: &Settings, index: &GraphIndex) -> Result<(), GraphStartError> {
    let started = Instant::now();
    let synced = index.sync().await.map_err(|error| failed(settings, error))?;
    if !synced.no_room.is_empty() {
        tracing::warn!(
            documents = synced.no_room.len(),
            "the graph has no room for some documents; graph-rag does not use them"
        );
    }
    if synced.added > 0 {
        let seconds = started.elapsed().as_secs_f64();
        let documents = synced.added;
        if std::io::stderr().is_terminal() || seconds > 1.0 {
            report_line!("adding {documents} documents to the graph took {seconds:.1} s");
        }
    }
    Ok(())
}

/// Creates the index that fills the graph: with the model as extractor if the settings say so, and
/// with semantic search for entity names if there is an embedder.
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
