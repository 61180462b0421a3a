//! Opens what a server stores: the library, the original files, the sessions and their turns.

use std::path::PathBuf;
use std::sync::Arc;

use ragwire::redis::RedisOptions;
use ragwire::session::Sessions;
#[cfg(feature = "qdrant")]
use ragwire_rag::SharedLibraryOptions;
use ragwire_rag::{Library, LibraryError, LibraryLimits};
use tokio::task::JoinHandle;

use super::StartError;
use crate::app::{Stores, library_limits, record_limits, session_limits};
#[cfg(not(feature = "qdrant"))]
use crate::engines::EnginesError;
use crate::engines::StoreLocation;
use crate::originals::{self, Originals, Place};
#[cfg(feature = "qdrant")]
use crate::output::report_line;
use crate::settings::Settings;
use crate::settings::engines::StoreKind;
#[cfg(not(feature = "qdrant"))]
use crate::settings::engines::check::not_built;

/// The file of a library of one server.
#[cfg(feature = "qdrant")]
const LIBRARY_FILE: &str = "library.db";
/// The file of the sessions, beside that of the library.
pub(crate) const SESSIONS_FILE: &str = "sessions.db";
/// The file of their finished turns.
pub(crate) const TURNS_FILE: &str = "turns.db";
/// Their name space on a Redis server.
const TURNS_NAME_SPACE: &str = "turns:";

/// Opens the sessions on the Redis server, if there is one, otherwise those in the data folder,
/// which exists by now. Also returns how many there are, and where, for the welcome message.
pub(super) async fn open_sessions(settings: &Settings) -> Result<(Stores, String), StartError> {
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
pub(super) async fn open_library(settings: &Settings) -> Result<Arc<Library>, StartError> {
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
        report_line!(
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
pub(super) fn shared_collection(settings: &Settings) -> String {
    format!("{}-library", settings.qdrant_collection.as_str())
}

pub(super) fn library_failed(settings: &Settings, source: LibraryError) -> StartError {
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

/// Opens the folder of the original files.
pub(super) async fn open_originals(
    settings: &Settings,
    library: &Arc<Library>,
) -> Result<Arc<Originals>, StartError> {
    let place = match settings.originals.as_deref() {
        // A folder for each collection, because what is not in the library is deleted.
        Some(folder) => Place::Shared(folder.join(settings.qdrant_collection.as_str())),
        None => Place::Own(settings.data.join(originals::FOLDER)),
    };
    let folder = place.folder().to_owned();
    let max_bytes = *settings.originals_size as u64;
    let opened = Originals::open(Arc::clone(library), place, max_bytes).await;
    let opened = opened.map_err(|reason| StartError::Path { path: folder, reason });
    opened.map(Arc::new)
}
