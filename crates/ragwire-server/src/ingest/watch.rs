//! Watches the folders of the user, and brings the library in step when something changes.
//!
//! The events only say that something changed: what, the next walk finds. So nothing is queued,
//! events may be lost or repeated, and a copy of a thousand files is one walk.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::Folders;

/// A walk begins when nothing has changed for this long: a copy is then complete, mostly.
const QUIET: Duration = Duration::from_millis(500);
/// The longest wait for that.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How often the folders are walked through without an event: for file systems that report nothing,
/// such as NFS, and after lost events.
const EVERY: Duration = Duration::from_secs(300);
/// The same if the folders cannot be watched.
const EVERY_UNWATCHED: Duration = Duration::from_secs(30);
/// A pause after each walk, relative to its duration, so that a folder that changes all the time takes
/// at most a fifth of a core.
const PAUSE_PER_WALK: u32 = 4;

/// Brings the library in step with the folders now and after every change.
///
/// # Cancel safety
///
/// Each document is added completely or not at all.
pub async fn watch(folders: Folders) -> Infallible {
    let changed = Arc::new(Notify::new());
    loop {
        // A new watcher each time: a folder that was replaced by another one has lost its own.
        let watcher = start(&folders, &changed);
        let started = Instant::now();
        match folders.sync(|_, _| {}).await {
            Ok(summary) if summary.has_changes() => tracing::info!(
                indexed = summary.added,
                removed = summary.removed,
                skipped = summary.skipped.len(),
                "the library follows its folders"
            ),
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the library cannot follow its folders"),
        }
        sleep(started.elapsed() * PAUSE_PER_WALK).await;
        let every = if watcher.is_some() { EVERY } else { EVERY_UNWATCHED };
        if timeout(every, changed.notified()).await.is_ok() {
            let settled = async { while timeout(QUIET, changed.notified()).await.is_ok() {} };
            let _ = timeout(MAX_WAIT, settled).await;
        }
    }
}

/// Watches all folders, or returns `None`.
fn start(folders: &Folders, changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let watching = || -> notify::Result<RecommendedWatcher> {
        let changed = Arc::clone(changed);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_err() || event.is_ok_and(|event| changes_something(event.kind)) {
                changed.notify_one();
            }
        })?;
        for path in folders.paths() {
            if path.is_dir() {
                watcher.watch(path, RecursiveMode::Recursive)?;
            } else {
                // Editors replace a file by another one, and a watch of it would see nothing of that.
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                watcher.watch(
                    folder.unwrap_or_else(|| Path::new(".")),
                    RecursiveMode::NonRecursive,
                )?;
            }
        }
        Ok(watcher)
    };
    match watching() {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(
                %error,
                "--watch: the folders cannot be watched, so they are looked through every {} s",
                EVERY_UNWATCHED.as_secs()
            );
            None
        }
    }
}

/// Reading a file is an event too, and the walk itself does that.
fn changes_something(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}
