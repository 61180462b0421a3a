//! Whether the disk of the data folder is full.
//!
//! Nothing is measured while everything works: a write that fails says so. From then on a probe tells
//! when there is room again. What needs the disk recovers by itself; this state is for health checks,
//! and refuses uploads before they are sent.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The file that the probe writes.
const PROBE: &str = "probe";
/// Its size: a short document with its index, or a long conversation.
const PROBE_BYTES: usize = 256 << 10;
/// The probe is not repeated more often, however many clients ask.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The disk of the data folder. Clones share what is known of it.
#[derive(Clone, Debug)]
pub struct Disk {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
    probing: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct State {
    is_full: bool,
    /// The last probe, and whether it found room.
    probed: Option<(Instant, bool)>,
}

impl Disk {
    /// A disk that is not known to be full.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            state: Arc::default(),
            probing: Arc::default(),
        }
    }

    /// Reports a write that failed for lack of room.
    pub fn report_full(&self) {
        let mut state = self.state();
        if !state.is_full {
            tracing::error!(folder = %self.folder.display(), "the disk is full: nothing can be stored");
        }
        *state = State {
            is_full: true,
            probed: None,
        };
    }

    /// Returns whether the disk is full, if it was or if something else suspects it.
    pub async fn is_full(&self, is_suspected: bool) -> bool {
        if !is_suspected && !self.state().is_full {
            return false;
        }
        // One probe at a time: two of them would write the same file.
        let _probing = self.probing.lock().await;
        if let Some((at, has_room)) = self.state().probed
            && at.elapsed() < PROBE_EVERY
        {
            return !has_room;
        }
        let file = self.folder.join(PROBE);
        let probed = tokio::task::spawn_blocking(move || probe(&file)).await;
        let has_room = matches!(probed, Ok(Ok(())));
        let mut state = self.state();
        if has_room && state.is_full {
            tracing::info!(folder = %self.folder.display(), "the disk has room again");
        }
        *state = State {
            is_full: !has_room,
            probed: Some((Instant::now(), has_room)),
        };
        !has_room
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn probe(file: &std::path::Path) -> io::Result<()> {
    let written = fs::File::create(file).and_then(|mut probe| {
        probe.write_all(&[0; PROBE_BYTES])?;
        probe.sync_all()
    });
    let removed = fs::remove_file(file);
    written.and(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_disk_is_known_until_something_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let disk = Disk::new(data.clone());
        assert!(!disk.is_full(false).await);
        disk.report_full();
        // Nothing can be written, because the folder does not exist.
        assert!(disk.is_full(false).await && disk.is_full(true).await);
        fs::create_dir(&data).unwrap();
        disk.state().probed = None;
        assert!(!disk.is_full(false).await);
        // A suspicion that is out of date refuses nothing.
        assert!(!disk.is_full(true).await);
        assert_eq!(fs::read_dir(data).unwrap().count(), 0);
    }
}
