//! The task that follows the changes of other hosts, and deletes what their unfinished uploads left.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

use super::catalogue::{Catalogue, Look};
use super::claims::Claims;
use super::options::SharedLibraryOptions;
use crate::documents::library::claim::Work;
use crate::documents::library::{Library, Shelf};
use crate::search::store::StoreError;

/// How often changes of the last minutes are looked at, which a host with another clock made.
const WIDEN: Duration = Duration::from_secs(15);
/// How often the whole list of documents is compared: what a long outage or a wrong clock hid.
const COMPARE: Duration = Duration::from_secs(600);

/// Follows the changes of other hosts until the library is dropped.
pub(super) async fn follow(library: Weak<Library>, options: SharedLibraryOptions) {
    let (mut compared, mut widened) = (Instant::now(), Instant::now());
    let mut is_behind = false;
    loop {
        tokio::time::sleep(options.poll).await;
        let Some((catalogue, claims)) = library.upgrade().and_then(|library| match &library.shelf {
            Shelf::Shared(shelf) => Some((Arc::clone(&shelf.catalogue), Arc::clone(&shelf.claims))),
            Shelf::Local(_) => None,
        }) else {
            return;
        };
        let look = if compared.elapsed() >= COMPARE {
            Look::All
        } else if is_behind || widened.elapsed() >= WIDEN {
            Look::Minutes
        } else {
            Look::Recent
        };
        match catalogue.news(look).await {
            Ok(news) => {
                if look != Look::Recent {
                    widened = Instant::now();
                }
                if let Some(library) = library.upgrade() {
                    library.apply(news);
                }
                if std::mem::take(&mut is_behind) {
                    tracing::info!("the shared library is followed again");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_behind, true) {
                    tracing::warn!(%error, "changes of other hosts are not seen until the shared library answers");
                }
                continue;
            }
        }
        if look == Look::All {
            compared = Instant::now();
            if let Err(error) = sweep(&catalogue, &claims, &options).await {
                tracing::warn!(%error, "unfinished uploads were not deleted");
            }
        }
    }
}

async fn sweep(
    catalogue: &Arc<Catalogue>,
    claims: &Claims,
    options: &SharedLibraryOptions,
) -> Result<(), StoreError> {
    let claim = claims
        .take(Arc::clone(catalogue), &Work::Sweep, options.lease)
        .await?;
    let Some((claim, renewal)) = claim else {
        return Ok(());
    };
    let sweeping = async {
        let swept = catalogue.sweep(options.sweep_after).await;
        drop(claim);
        swept
    };
    let (swept, ()) = tokio::join!(sweeping, renewal.run());
    let swept = swept?;
    if swept > 0 {
        tracing::info!(documents = swept, "deleted unfinished uploads");
    }
    Ok(())
}
