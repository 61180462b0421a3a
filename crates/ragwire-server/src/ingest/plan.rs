//! Decides which files have changed since they were read.
//!
//! A file of the same size, with the same time of its last change, is unchanged. If only the time
//! differs, its content decides, which is read for that but not parsed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ragwire_rag::{Library, LibraryError, Source, SourceOutcome, SourceRoot};

use super::walk::{Root, SourceFile, walk};
use crate::originals::Originals;

/// A file that changed this recently may change again within the same tick of its file system's
/// clock. FAT has the longest one, 2 seconds.
const TICK: Duration = Duration::from_secs(2);

/// What is to be done for the library to have what is in the folders.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Files that are new or may have changed, with what was recorded of them.
    pub(super) changed: Vec<(PlannedFile, Option<Source>)>,
    /// Recorded files that were deleted.
    pub(super) gone: Vec<Source>,
    /// Folders to record.
    pub(super) roots: Vec<SourceRoot>,
    /// Documents whose files have not changed.
    pub(super) unchanged: usize,
    /// Files that give no document.
    pub(super) skipped: Vec<(PathBuf, String)>,
}

/// A file to look at.
#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) root: String,
}

impl Plan {
    /// Walks through the folders and compares them with the records of the library. Blocks.
    pub(super) fn new(
        library: &Library,
        originals: &Originals,
        paths: &[PathBuf],
        reader: &str,
        reads_images: bool,
    ) -> Result<Self, LibraryError> {
        let mut walk = walk(paths, reads_images);
        let mut recorded: HashMap<String, Source> = library
            .sources()?
            .into_iter()
            .map(|source| (source.name.clone(), source))
            .collect();
        let mut plan = Self {
            skipped: std::mem::take(&mut walk.skipped)
                .into_iter()
                .map(|skipped| (skipped.path, skipped.reason.to_owned()))
                .collect(),
            ..Self::default()
        };
        let known: HashMap<String, String> = library
            .source_roots()?
            .into_iter()
            .map(|root| (root.path, root.identity))
            .collect();
        let with_files: BTreeSet<usize> = walk.files.iter().map(|file| file.root).collect();
        let mut readable: HashMap<&str, &Root> = HashMap::new();
        for (at, root) in walk.roots.iter().enumerate() {
            let had = known.get(&root.path);
            let other = had.is_some_and(|identity| *identity != root.identity);
            if other && !with_files.contains(&at) && recorded.values().any(|one| one.root == root.path) {
                // A mount point without its disk, for instance.
                tracing::warn!(
                    folder = root.path,
                    "another folder is at this path, and it is empty: the documents that came from it are kept"
                );
                continue;
            }
            if had != Some(&root.identity) {
                plan.roots.push(SourceRoot {
                    path: root.path.clone(),
                    identity: root.identity.clone(),
                });
            }
            readable.insert(&root.path, root);
        }
        let gone: HashSet<String> = recorded
            .values()
            .filter(|one| !walk.has(&one.name))
            .filter(|one| {
                readable
                    .get(one.root.as_str())
                    .is_some_and(|root| root.was_read(&one.name))
            })
            .map(|one| one.name.clone())
            .collect();
        plan.gone = gone.iter().filter_map(|name| recorded.remove(name)).collect();
        for file in std::mem::take(&mut walk.files) {
            let source = recorded.remove(&file.name);
            let root = walk.roots[file.root].path.clone();
            plan.file(library, originals, reader, file, root, source);
        }
        Ok(plan)
    }

    fn file(
        &mut self,
        library: &Library,
        originals: &Originals,
        reader: &str,
        file: SourceFile,
        root: String,
        source: Option<Source>,
    ) {
        let same = source.as_ref().filter(|source| {
            source.bytes == file.bytes
                && source.modified_ns != 0
                && source.modified_ns == nanoseconds(file.modified)
                && source.root == root
                && is_current(source, library, reader)
        });
        match same.map(|source| &source.outcome) {
            Some(SourceOutcome::Document(id)) if !originals.lacks(id, file.bytes) => self.unchanged += 1,
            Some(SourceOutcome::Skipped(reason)) => self.skipped.push((file.path, reason.clone())),
            Some(SourceOutcome::Document(_)) | None => {
                let file = PlannedFile {
                    path: file.path,
                    name: file.name,
                    root,
                };
                self.changed.push((file, source));
            }
        }
    }
}

impl Root {
    /// Returns whether the file of a document could have been seen.
    fn was_read(&self, name: &str) -> bool {
        let above = |unread: &String| {
            unread.is_empty()
                || name
                    .strip_prefix(unread.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.unread.iter().any(above)
    }
}

/// Returns whether reading the same content again would give what the library has.
pub(super) fn is_current(source: &Source, library: &Library, reader: &str) -> bool {
    source.reader == reader
        && match &source.outcome {
            SourceOutcome::Document(id) => library.is_live(id),
            SourceOutcome::Skipped(_) => true,
        }
}

/// Returns the time of a change for a record, and 0 if the file may change again without a later
/// time.
pub(super) fn settled(modified: Option<SystemTime>) -> u64 {
    let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
    if age.is_some_and(|age| age > TICK) {
        nanoseconds(modified)
    } else {
        0
    }
}

fn nanoseconds(time: Option<SystemTime>) -> u64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or_default())
}
