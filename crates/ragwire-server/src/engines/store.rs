//! Where chunks are kept: opened, or reached, with what it says of itself. It knows no library.

use std::path::PathBuf;
use std::sync::Arc;

use ragwire_rag::models::Embed;
use ragwire_rag::search::store::{MemoryStore, Store, StoreError, Vectors};

use super::Part;
use super::error::EnginesError;
use crate::settings::Settings;
use crate::settings::engines::StoreKind;
#[cfg(not(all(feature = "qdrant", feature = "qdrant-edge")))]
use crate::settings::engines::not_built;

/// The folder of the store beside the library.
#[cfg(feature = "qdrant-edge")]
const FOLDER: &str = "qdrant-edge";

/// Which store, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// In memory.
    Memory,
    /// In a folder.
    Folder(PathBuf),
    /// In a collection of a Qdrant server.
    Collection(String),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Folder(folder) => write!(f, "qdrant-edge in {}", folder.display()),
            Self::Collection(name) => write!(f, "qdrant, collection {name}"),
        }
    }
}

impl Place {
    pub(super) fn failed(&self, source: StoreError) -> EnginesError {
        EnginesError::Store {
            place: self.clone(),
            source,
        }
    }
}

/// Whether what is put in now is not there at the next start.
pub(super) fn is_gone_with_the_process(settings: &Settings) -> bool {
    settings.store == StoreKind::Memory
}

/// Opens the store that the settings name, for the vectors of this embedder.
pub(super) async fn open(
    settings: &Settings,
    embedder: Option<&dyn Embed>,
) -> Result<(Arc<dyn Store>, Place, Option<Arc<dyn Part>>), EnginesError> {
    let vectors = embedder.map_or(Vectors::NONE, |embedder| Vectors::dense(embedder.dimensions()));
    match settings.store {
        StoreKind::Memory => Ok((Arc::new(MemoryStore::new(vectors)), Place::Memory, None)),
        #[cfg(feature = "qdrant-edge")]
        StoreKind::QdrantEdge => {
            use ragwire_rag::search::store::{EdgeOptions, EdgeStore};

            let folder = settings.data.join(FOLDER);
            let mut options = EdgeOptions::new(vectors);
            if let Some(embedder) = embedder {
                options = options.embedder(embedder.name());
            }
            let opened = EdgeStore::open(&folder, options).await;
            let place = Place::Folder(std::path::absolute(&folder).unwrap_or(folder));
            let store = Arc::new(opened.map_err(|error| place.failed(error))?);
            Ok((Arc::clone(&store) as _, place, Some(store)))
        }
        #[cfg(feature = "qdrant")]
        StoreKind::Qdrant => {
            use ragwire_rag::search::store::{QdrantOptions, QdrantStore};

            let url = settings.qdrant_url.0.clone().unwrap_or_default();
            let collection = settings.qdrant_collection.0.clone();
            let mut options =
                QdrantOptions::new(url, &collection, vectors).api_key(settings.qdrant_api_key.0.clone());
            if let Some(embedder) = embedder {
                options = options.embedder(embedder.name());
            }
            let place = Place::Collection(collection);
            let failed = |error| place.failed(error);
            let store = QdrantStore::new(options).map_err(failed)?;
            // Now, and not with the first document.
            store.ready().await.map_err(failed)?;
            Ok((Arc::new(store), place, None))
        }
        #[cfg(not(feature = "qdrant-edge"))]
        StoreKind::QdrantEdge => Err(not_built("store qdrant-edge", "qdrant-edge").into()),
        #[cfg(not(feature = "qdrant"))]
        StoreKind::Qdrant => Err(not_built("store qdrant", "qdrant").into()),
    }
}

#[cfg(feature = "qdrant-edge")]
mod edge {
    use ragwire_rag::models::Boxed;
    use ragwire_rag::search::store::EdgeStore;

    use super::Part;

    impl Part for EdgeStore {
        /// What is not on disk is made again by the next start, so a failure is none of anybody else's.
        fn flush(&self) -> Boxed<'_, ()> {
            Box::pin(async {
                // The store's own, which tells whether it worked.
                if let Err(error) = Self::flush(self).await {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "the store was not brought to disk"
                    );
                }
            })
        }

        fn end(&self) -> Boxed<'_, ()> {
            Part::flush(self)
        }
    }
}
