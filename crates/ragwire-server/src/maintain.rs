//! The commands that look after the files in `--data` while no server runs: `check`, `repair`,
//! `export`, `import`.
//!
//! Documents are data: what can be read of a damaged library is saved. The graph is an index of them,
//! so it is moved away and built again. Conversations are data too; a file that cannot be
//! read is moved away and kept.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ragwire::session::{SessionError, SessionLimits, Sessions};
use ragwire_rag::graph::{Graph, GraphError, GraphRoom};
use ragwire_rag::{Library, LibraryError, LibraryLimits, Salvage, SavedDocument};

use crate::output::print_line;
use crate::start::{SESSIONS_FILE, TURNS_FILE};

/// Exit status of `check` if a file is damaged, and of a command that failed.
const FAILED: u8 = 1;
/// The first line of an export: the format, which another version checks.
const HEADER: &str = r#"{"ragwire_library":1}"#;
/// The file of the library, as `Library` names it.
const LIBRARY_FILE: &str = "library.db";
/// Files that belong to that of the library.
const LIBRARY_FILES: [&str; 3] = [LIBRARY_FILE, "library.db-wal", "library.db-shm"];
/// Where a repaired library is built. What an interrupted repair left there is removed.
const REPAIR_FOLDER: &str = "repair";

/// Where the files are.
#[derive(Debug, clap::Args)]
pub struct DataFolder {
    /// Folder of the indexed documents
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
}

/// A command that failed.
#[derive(Debug, thiserror::Error)]
pub enum MaintainError {
    /// The library cannot be read or written.
    #[error("library: {0}")]
    Library(#[from] LibraryError),
    /// A file cannot be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: io::Error,
    },
    /// The file to import is not an export.
    #[error("{} line {line}: {reason}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The reason, for the operator.
        reason: String,
    },
    /// Files of a server that runs.
    #[error("{0} is in use; stop the server first")]
    InUse(&'static str),
    /// The folder does not exist.
    #[error("{} does not exist; name the folder of the server with --data", .0.display())]
    NoFolder(PathBuf),
    /// The folder contains no library.
    #[error("{} has no library", .0.display())]
    NoLibrary(PathBuf),
}

/// What a file is found to be.
enum Verdict {
    Fine(String),
    Missing,
    Damaged(String),
}

/// Prints the outcome of a command, and returns its status.
pub fn exit(done: Result<bool, MaintainError>) -> ExitCode {
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Checks every file. Returns whether none is damaged.
///
/// # Errors
///
/// [`MaintainError`]; a damaged file is not an error.
pub async fn check(folder: &DataFolder) -> Result<bool, MaintainError> {
    if !folder.data.is_dir() {
        return Err(MaintainError::NoFolder(folder.data.clone()));
    }
    let mut is_fine = true;
    for (name, verdict) in [
        (LIBRARY_FILE, check_library(&folder.data)?),
        (Graph::FILE_NAME, check_graph(&folder.data)?),
        (SESSIONS_FILE, check_sessions(&folder.data, SESSIONS_FILE).await?),
        (TURNS_FILE, check_sessions(&folder.data, TURNS_FILE).await?),
    ] {
        match verdict {
            Verdict::Fine(content) => print_line!("{name}: fine, {content}"),
            Verdict::Missing => print_line!("{name}: does not exist"),
            Verdict::Damaged(reason) => {
                is_fine = false;
                print_line!("{name}: damaged: {reason}");
            }
        }
    }
    if !is_fine {
        print_line!("`ragwire-server repair` saves what can be read");
    }
    Ok(is_fine)
}

/// Repairs what `check` finds damaged. A damaged file is kept under another name.
///
/// # Errors
///
/// [`MaintainError`].
pub async fn repair(folder: &DataFolder) -> Result<bool, MaintainError> {
    let data = &folder.data;
    match check_library(data)? {
        Verdict::Fine(_) => print_line!("{LIBRARY_FILE}: fine"),
        Verdict::Missing => print_line!("{LIBRARY_FILE}: does not exist"),
        Verdict::Damaged(_) => repair_library(data)?,
    }
    if let Verdict::Damaged(_) = check_graph(data)? {
        let kept = move_away(data, Graph::FILE_NAME)?;
        print_line!(
            "{}: the next start with --graph builds it again; the old file is {kept}",
            Graph::FILE_NAME
        );
    }
    for name in [SESSIONS_FILE, TURNS_FILE] {
        if let Verdict::Damaged(reason) = check_sessions(data, name).await? {
            let kept = move_away(data, name)?;
            print_line!(
                "{name}: cannot be repaired ({reason}); the next start begins without it, and the old file is {kept}"
            );
        }
    }
    Ok(true)
}

/// Writes the documents with their passages into a file, one JSON object on each line.
///
/// # Errors
///
/// [`MaintainError`].
pub fn export(folder: &DataFolder, file: &Path) -> Result<bool, MaintainError> {
    let library = existing(&folder.data)?;
    let failed = |reason| MaintainError::File {
        path: file.to_owned(),
        reason,
    };
    let mut out = BufWriter::new(File::create(file).map_err(failed)?);
    writeln!(out, "{HEADER}").map_err(failed)?;
    let mut documents = 0;
    library.export(|document| {
        serde_json::to_writer(&mut out, &document).map_err(|error| failed(error.into()))?;
        documents += 1;
        out.write_all(b"\n").map_err(failed)
    })?;
    out.into_inner()
        .map_err(|error| failed(error.into_error()))?
        .sync_all()
        .map_err(failed)?;
    print_line!("{documents} documents exported");
    Ok(true)
}

/// Adds the documents of an export. Those that the library has stay as they are.
///
/// # Errors
///
/// [`MaintainError`]; the documents before the line that it names are added.
pub fn import(folder: &DataFolder, file: &Path) -> Result<bool, MaintainError> {
    let library = open(&folder.data)?;
    let failed = |reason| MaintainError::File {
        path: file.to_owned(),
        reason,
    };
    let wrong = |line: usize, reason: String| MaintainError::Import {
        path: file.to_owned(),
        line,
        reason,
    };
    let (mut added, mut known) = (0, 0);
    for (line, text) in (1..).zip(BufReader::new(File::open(file).map_err(failed)?).lines()) {
        let text = text.map_err(failed)?;
        if line == 1 {
            if text != HEADER {
                return Err(wrong(
                    line,
                    format!("not an export of this version, which begins with {HEADER}"),
                ));
            }
            continue;
        }
        let document: SavedDocument =
            serde_json::from_str(&text).map_err(|error| wrong(line, error.to_string()))?;
        match library.restore(&document) {
            Ok(true) => added += 1,
            Ok(false) => known += 1,
            Err(LibraryError::Damaged(reason)) => return Err(wrong(line, reason)),
            Err(error) => return Err(error.into()),
        }
    }
    print_line!("{added} documents imported, {known} were there already");
    Ok(true)
}

fn open(data: &Path) -> Result<Library, MaintainError> {
    let mut limits = LibraryLimits::default();
    // What was allowed once is allowed here.
    (limits.max_documents, limits.max_chunks) = (usize::MAX, usize::MAX / 2);
    match Library::open(data, limits) {
        Err(LibraryError::InUse) => Err(MaintainError::InUse(LIBRARY_FILE)),
        opened => Ok(opened?),
    }
}

fn existing(data: &Path) -> Result<Library, MaintainError> {
    if !data.join(LIBRARY_FILE).exists() {
        return Err(MaintainError::NoLibrary(data.to_owned()));
    }
    open(data)
}

fn check_library(data: &Path) -> Result<Verdict, MaintainError> {
    let opened = match existing(data) {
        Err(MaintainError::NoLibrary(_)) => return Ok(Verdict::Missing),
        Err(MaintainError::Library(error)) => Err(error),
        Err(other) => return Err(other),
        Ok(library) => Ok(library),
    };
    let checked = opened.and_then(|library| {
        library.check()?;
        Ok(format!(
            "{} documents, {} passages",
            library.document_count(),
            library.chunk_count()
        ))
    });
    match checked {
        Ok(content) => Ok(Verdict::Fine(content)),
        Err(LibraryError::Damaged(reason)) => Ok(Verdict::Damaged(reason)),
        Err(LibraryError::Storage(error)) => Ok(Verdict::Damaged(error.to_string())),
        Err(other) => Err(other.into()),
    }
}

fn check_graph(data: &Path) -> Result<Verdict, MaintainError> {
    if !data.join(Graph::FILE_NAME).exists() {
        return Ok(Verdict::Missing);
    }
    match Graph::open(data, GraphRoom::default()) {
        Ok(graph) => {
            let size = graph.size();
            Ok(Verdict::Fine(format!(
                "{} entities, {} triples",
                size.entities, size.triples
            )))
        }
        Err(GraphError::InUse) => Err(MaintainError::InUse(Graph::FILE_NAME)),
        Err(error) => Ok(Verdict::Damaged(error.to_string())),
    }
}

async fn check_sessions(data: &Path, name: &'static str) -> Result<Verdict, MaintainError> {
    let file = data.join(name);
    if !file.exists() {
        return Ok(Verdict::Missing);
    }
    let checked = async {
        // Nothing expires while it is checked.
        let limits = SessionLimits::default().max_age(std::time::Duration::MAX);
        Sessions::open(&file, limits).await?.sweep().await
    };
    match checked.await {
        Ok(count) => Ok(Verdict::Fine(format!("{count} entries"))),
        Err(SessionError::InUse) => Err(MaintainError::InUse(name)),
        Err(error) => Ok(Verdict::Damaged(error.to_string())),
    }
}

fn repair_library(data: &Path) -> Result<(), MaintainError> {
    let folder = data.join(REPAIR_FOLDER);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |reason| MaintainError::File { path, reason }
    };
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed(&folder))?;
    }
    let new = open(&folder)?;
    let Salvage {
        saved,
        lost,
        is_incomplete,
        ..
    } = new.salvage(&data.join(LIBRARY_FILE))?;
    new.check()?;
    // Closing writes the log into the file.
    drop(new);
    let mut kept = String::new();
    for name in LIBRARY_FILES.iter().rev().filter(|name| data.join(name).exists()) {
        kept = move_away(data, name)?;
    }
    let (from, to) = (folder.join(LIBRARY_FILE), data.join(LIBRARY_FILE));
    std::fs::rename(&from, &to).map_err(failed(&to))?;
    std::fs::remove_dir_all(&folder).map_err(failed(&folder))?;
    print_line!("{LIBRARY_FILE}: {saved} documents saved; the old file is {kept}");
    for name in &lost {
        print_line!("lost: {}", crate::ask::clean(name));
    }
    if is_incomplete {
        print_line!("further documents may be lost whose names cannot be read; index them again with --docs");
    }
    Ok(())
}

/// Renames a file so that nothing opens it, and returns its new name.
fn move_away(data: &Path, name: &str) -> Result<String, MaintainError> {
    let free = |number: &usize| !data.join(format!("{name}.damaged-{number}")).exists();
    let number = (1..).find(free).unwrap_or(1);
    let kept = format!("{name}.damaged-{number}");
    let from = data.join(name);
    let rename = |from: PathBuf, to: &str| {
        std::fs::rename(&from, data.join(to)).map_err(|reason| MaintainError::File { path: from, reason })
    };
    rename(from, &kept)?;
    // SQLite would take a log that stays for that of the next file of this name.
    let log = data.join(format!("{name}-wal"));
    if log.exists() {
        rename(log, &format!("{kept}-wal"))?;
    }
    Ok(kept)
}
