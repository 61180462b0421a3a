//! Opens the store that the settings name. This module does not know the library.

use std::sync::Arc;

use ragwire_rag::models::Embed;
use ragwire_rag::search::store::{MemoryStore, Store, Vectors};

use super::error::EnginesError;
use super::location::StoreLocation;
use super::part::Part;
use crate::settings::Settings;
use crate::settings::engines::StoreKind;
#[cfg(not(all(feature = "qdrant", feature = "qdrant-edge")))]
use crate::settings::engines::check::not_built;

/// The folder of the store, beside the library.
#[cfg(feature = "qdrant-edge")]
const FOLDER: &str = "qdrant-edge";

/// Returns whether the store survives the process.
pub(super) fn is_persistent(settings: &Settings) -> bool {
    match settings.store {
        StoreKind::Memory => false,
        StoreKind::QdrantEdge | StoreKind::Qdrant => true,
    }
}

/// Opens the store for the vectors of this embedder.
pub(super) async fn open(
    settings: &Settings,
    embedder: Option<&dyn Embed>,
) -> Result<(Arc<dyn Store>, StoreLocation, Option<Arc<dyn Part>>), EnginesError> {
    let vectors = embedder.map_or(Vectors::NONE, |embedder| Vectors::dense(embedder.dimensions()));
    match settings.store {
        StoreKind::Memory => Ok((Arc::new(MemoryStore::new(vectors)), StoreLocation::Memory, None)),
        #[cfg(feature = "qdrant-edge")]
        StoreKind::QdrantEdge => {
            use ragwire_rag::search::store::{EdgeOptions, EdgeStore};

            let folder = settings.data.join(FOLDER);
            let mut options = EdgeOptions::new(vectors);
            if let Some(embedder) = embedder {
                options = options.embedder(embedder.name());
            }
            let opened = EdgeStore::open(&folder, options).await;
            let location = StoreLocation::Folder(std::path::absolute(&folder).unwrap_or(folder));
            let store = Arc::new(opened.map_err(|error| location.error(error))?);
            Ok((Arc::clone(&store) as _, location, Some(store)))
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
            let location = StoreLocation::Collection(collection);
            let failed = |error| location.error(error);
            let store = QdrantStore::new(options).map_err(failed)?;
            // Connect now rather than with the first document.
            store.ready().await.map_err(failed)?;
            Ok((Arc::new(store), location, None))
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
        /// Only logs a failure: the next start rebuilds what is not on disk.
        fn flush(&self) -> Boxed<'_, ()> {
            Box::pin(async {
                // The inherent method, which returns the error.
                if let Err(error) = Self::flush(self).await {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "cannot flush the store to disk"
                    );
                }
            })
        }

        fn shut_down(&self) -> Boxed<'_, ()> {
            Part::flush(self)
        }
    }
}
