//! The command `ingest`, and the documents that a server reads while it starts.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ragwire_rag::Library;

use super::stores::{library_failed, open_library, open_originals};
use super::{StartError, fail};
use crate::engines::Engines;
use crate::extract::Extractor;
use crate::graph;
use crate::ingest::Folders;
use crate::originals::Originals;
use crate::output::report_line;
use crate::readiness::{Readiness, Stage};
use crate::sample;
use crate::settings::Settings;

/// Indexes the documents that the settings name, or the sample documents into an empty library.
pub(super) async fn fill_library(
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
            report_line!("no documents yet: indexed the sample library; add your own with --docs PATH");
        }
    } else {
        let started = Instant::now();
        let report = |done, total| readiness.set(Stage::Reading { done, total });
        let folders = Folders::new(settings, library, extractor, originals);
        folders.sync(report).await.map_err(failed)?.print();
        report_line!("indexing took {:.1} s", started.elapsed().as_secs_f64());
        // The sample documents are only a placeholder for the user's own.
        sample::remove(library).map_err(failed)?;
    }
    Ok(())
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
    if let Err(error) = extractor.check().await {
        return fail(&error.into());
    }
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
