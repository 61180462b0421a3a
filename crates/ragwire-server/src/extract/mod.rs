//! Reads documents in separate processes.
//!
//! A malicious file can make a parser loop, exhaust memory or overflow its stack, and a process
//! cannot recover from any of these. So the server starts itself again, with limits on time, memory
//! and output, and without its environment. If such a process dies, only one document is affected.
//!
//! A process reads one document after another, because starting it takes longer than reading most
//! documents. It is replaced after a crash or a time-out, when it has read many documents, and when
//! one left it with much memory in use. `worker.rs` is the server's side, `child.rs` the other.
//! `ocr.rs` reads images, with programs that are started in the same way.

mod child;
pub(crate) mod ocr;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ragwire_rag::{ParseError, ParseErrorKind, Parsed};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::Semaphore;

use crate::settings::Settings;
use crate::settings::values::Size;
use ocr::Ocr;
use worker::{Reply, Worker};

pub use child::{ChildOptions, child};
pub use ocr::OcrError;

/// Largest output: the parser's limit of 16 MiB of text, plus headings and JSON.
const MAX_OUTPUT_BYTES: u64 = 128 << 20;
/// Documents that one process reads. What a parser leaks is bounded by it.
const MAX_DOCUMENTS: u32 = 1_000;
/// Begins a reply, and says that a process has started. Nothing else is written to the same pipe
/// where a process reads more than one document.
const SEPARATOR: u8 = 0x1e;
/// What a process keeps of the environment: where its shared libraries are, such as those of a build
/// with the feature `llama-dynamic`.
const LOADER_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// Starts the processes. Clones share the limit on their number.
#[derive(Clone, Debug)]
pub struct Extractor {
    program: PathBuf,
    time: Duration,
    memory: Size,
    max_file: Size,
    ocr: Option<Ocr>,
    permits: Arc<Semaphore>,
    /// Processes that wait for their next document: at most as many as there are permits.
    idle: Arc<Mutex<Vec<Worker>>>,
    /// How many processes were started.
    started: Arc<AtomicUsize>,
}

/// A document that could not be read. The message is safe for the user who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ExtractError {
    /// What went wrong, for decisions on it.
    pub kind: ExtractErrorKind,
    /// A stable code: those of [`ParseError`], and `extract_timeout`, `extract_died`,
    /// `extract_failed`.
    pub code: String,
    /// The message.
    pub message: String,
}

/// What went wrong while a document was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractErrorKind {
    /// The file type is not supported.
    Unsupported,
    /// The file or its text exceeds a limit.
    TooLarge,
    /// The file has no readable text.
    Unreadable,
    /// Reading the file took more time or memory than the limit. Both depend on what else the machine
    /// does.
    Exhausted,
    /// This server failed.
    Internal,
}

impl From<&ParseError> for ExtractErrorKind {
    fn from(error: &ParseError) -> Self {
        match error.kind() {
            ParseErrorKind::Unsupported => Self::Unsupported,
            ParseErrorKind::TooLarge => Self::TooLarge,
            ParseErrorKind::Unreadable => Self::Unreadable,
        }
    }
}

impl ExtractError {
    fn new(kind: ExtractErrorKind, code: &str, message: &str) -> Self {
        Self {
            kind,
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    fn failed(step: &str, error: &std::io::Error) -> Self {
        tracing::error!(%error, step, "cannot run the process that reads documents");
        Self::new(
            ExtractErrorKind::Internal,
            "extract_failed",
            "the document could not be read",
        )
    }
}

/// What a process replies.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Parsed(Parsed),
    Error(ExtractError),
}

impl Extractor {
    /// Creates an extractor that starts this program, which must support the command `extract`.
    pub fn new(program: PathBuf, settings: &Settings) -> Self {
        // More processes than cores would only slow each other down, with the same time limit.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            program,
            time: *settings.extract_timeout,
            memory: settings.extract_memory,
            max_file: settings.max_upload_size,
            ocr: settings.ocr.as_deref().map(Ocr::new),
            permits: Arc::new(Semaphore::new(cores)),
            idle: Arc::default(),
            started: Arc::default(),
        }
    }

    /// Creates an extractor that starts this executable.
    ///
    /// # Errors
    ///
    /// Fails if the path of the executable is unknown.
    pub fn this_program(settings: &Settings) -> std::io::Result<Self> {
        // On Linux this link still works after a newer build replaced the file.
        let link = PathBuf::from("/proc/self/exe");
        let program = if cfg!(target_os = "linux") && link.exists() {
            link
        } else {
            std::env::current_exe()?
        };
        Ok(Self::new(program, settings))
    }

    /// Returns how many documents are read concurrently.
    pub fn concurrency(&self) -> usize {
        self.permits.available_permits().max(1)
    }

    /// Returns how many processes were started since the server was.
    pub fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// Reads a document. Waits while the maximum number of processes is running.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the process.
    ///
    /// # Errors
    ///
    /// [`ExtractError`], which concerns only this document.
    pub async fn extract(&self, name: &str, bytes: Bytes) -> Result<Parsed, ExtractError> {
        let Ok(_permit) = self.permits.acquire().await else {
            unreachable!("the semaphore is never closed")
        };
        // Dropping a worker kills its process, also on a time-out.
        let read = match tokio::time::timeout(self.time, self.extract_in_time(name, &bytes)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                tracing::warn!("a document took too long to read");
                Err(ExtractError::new(
                    ExtractErrorKind::Exhausted,
                    "extract_timeout",
                    "the document took too long to read",
                ))
            }
        };
        match &self.ocr {
            Some(ocr) => self.with_images(ocr, &bytes, read).await,
            None => read,
        }
    }

    /// Checks that the programs that read images are installed, if images are to be read.
    ///
    /// # Errors
    ///
    /// [`OcrError`].
    pub async fn check(&self) -> Result<(), OcrError> {
        match &self.ocr {
            Some(ocr) => ocr.check().await,
            None => Ok(()),
        }
    }

    /// Returns this program as a process that limits itself, with pipes and without the environment
    /// except [`LOADER_VARIABLES`].
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("extract")
            .arg(format!("--max-memory={}", self.memory.0))
            .arg(format!("--max-file={}", self.max_file.0))
            .arg(format!("--max-seconds={}", self.time.as_secs() + 1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Parsers print what they cannot read, which may be pieces of the document.
            .stderr(Stdio::null())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.env_clear().envs(variables(&LOADER_VARIABLES));
        // The allocator would reserve a gigabyte before the process limits its memory.
        command.env("MIMALLOC_DISALLOW_ARENA_ALLOC", "1");
        command
    }

    async fn extract_in_time(&self, name: &str, bytes: &Bytes) -> Result<Parsed, ExtractError> {
        let idle = self.idle().pop();
        if let Some(mut worker) = idle {
            match worker.read(name, bytes).await? {
                // It has ended by itself while it was idle, before it got this document.
                Reply::Ended(status) if status.success() => {}
                reply => return self.outcome(worker, reply),
            }
        }
        self.started.fetch_add(1, Ordering::Relaxed);
        let mut worker = Worker::start(self)
            .await
            .map_err(|error| ExtractError::failed("start", &error))?;
        let reply = worker.read(name, bytes).await?;
        self.outcome(worker, reply)
    }

    fn outcome(&self, worker: Worker, reply: Reply) -> Result<Parsed, ExtractError> {
        match reply {
            Reply::Outcome(outcome) => {
                if worker.documents() < MAX_DOCUMENTS {
                    self.idle().push(worker);
                }
                match *outcome {
                    Outcome::Parsed(parsed) => Ok(parsed),
                    Outcome::Error(error) => Err(error),
                }
            }
            Reply::TooLong => Err(ExtractError::new(
                ExtractErrorKind::TooLarge,
                "too_much_text",
                "the document contains too much text",
            )),
            // Out of memory, out of stack, or a panic within the parser.
            Reply::Ended(status) => {
                tracing::warn!(%status, "a document crashed the process that read it");
                Err(ExtractError::new(
                    ExtractErrorKind::Exhausted,
                    "extract_died",
                    "the document is damaged, or needs more memory than the limit",
                ))
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns these variables of the environment, if they are set.
fn variables(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, OsString)> {
    names
        .iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (*name, value)))
}
