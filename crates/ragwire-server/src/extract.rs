//! Reads each document in a separate process.
//!
//! A malicious file can make a parser loop, exhaust memory or overflow its stack, and a process
//! cannot recover from any of these. So the server starts itself again for each document: bytes on
//! stdin, text on stdout, with limits on time, memory and output, and without the server's
//! environment. If that process dies, only one document is affected.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ragwire_rag::{ParseError, ParseLimits, Parsed, parse};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::settings::Settings;
use crate::settings::values::Size;

/// Largest output: the parser's limit of 16 MiB of text, plus headings and JSON.
const MAX_OUTPUT_BYTES: u64 = 128 << 20;
/// Separates the outcome from anything that a parser prints before it. JSON never contains this
/// byte.
const SEPARATOR: u8 = 0x1e;

/// Starts the processes. Clones share the limit on their number.
#[derive(Clone, Debug)]
pub struct Extractor {
    program: PathBuf,
    time: Duration,
    memory: Size,
    max_file: Size,
    permits: Arc<Semaphore>,
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
    /// The file has no readable text, or reading it took too much time or memory.
    Unreadable,
    /// This server failed.
    Internal,
}

impl From<&ParseError> for ExtractErrorKind {
    fn from(error: &ParseError) -> Self {
        match error {
            ParseError::UnsupportedType => Self::Unsupported,
            ParseError::FileTooLarge { .. }
            | ParseError::TooMuchText { .. }
            | ParseError::TooManyBlocks { .. }
            | ParseError::TooManyPages { .. } => Self::TooLarge,
            // An empty, encrypted, damaged or excessively nested file.
            _ => Self::Unreadable,
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

/// The output of the child process on stdout.
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
            permits: Arc::new(Semaphore::new(cores)),
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
        let child = self
            .command(name)
            .spawn()
            .map_err(|error| ExtractError::failed("start", &error))?;
        // Dropping the child kills it, also on a time-out.
        match tokio::time::timeout(self.time, converse(child, bytes)).await {
            Ok(outcome) => outcome,
            Err(_) => {
                tracing::warn!("a document took too long to read");
                Err(ExtractError::new(
                    ExtractErrorKind::Unreadable,
                    "extract_timeout",
                    "the document took too long to read",
                ))
            }
        }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("extract")
            .arg(format!("--max-memory={}", self.memory.0))
            .arg(format!("--max-file={}", self.max_file.0))
            .arg(format!("--max-seconds={}", self.time.as_secs() + 1))
            .arg(format!("--name={}", name.replace('\0', "")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Parsers print what they cannot read, which may be pieces of the document.
            .stderr(Stdio::null())
            .kill_on_drop(true);
        #[cfg(unix)]
        command.env_clear();
        command
    }
}

async fn converse(mut child: Child, bytes: Bytes) -> Result<Parsed, ExtractError> {
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        unreachable!("both are piped")
    };
    let write = async move {
        // A child that exits early may have written why; the code below checks that.
        let _ = stdin.write_all(&bytes).await;
        let _ = stdin.shutdown().await;
    };
    let mut output = Vec::new();
    let mut stdout = stdout.take(MAX_OUTPUT_BYTES);
    let ((), read) = tokio::join!(write, stdout.read_to_end(&mut output));
    read.map_err(|error| ExtractError::failed("read", &error))?;
    if output.len() as u64 == MAX_OUTPUT_BYTES {
        return Err(ExtractError::new(
            ExtractErrorKind::TooLarge,
            "too_much_text",
            "the document contains too much text",
        ));
    }
    let status = child
        .wait()
        .await
        .map_err(|error| ExtractError::failed("wait", &error))?;
    let answer = output
        .iter()
        .rposition(|byte| *byte == SEPARATOR)
        .map(|at| &output[at + 1..]);
    match answer.map(serde_json::from_slice) {
        Some(Ok(Outcome::Parsed(parsed))) => Ok(parsed),
        Some(Ok(Outcome::Error(error))) => Err(error),
        // Out of memory, out of stack, or a panic within the parser.
        Some(Err(_)) | None => {
            tracing::warn!(%status, "a document crashed the process that read it");
            Err(ExtractError::new(
                ExtractErrorKind::Unreadable,
                "extract_died",
                "the document is damaged, or needs more memory than the limit",
            ))
        }
    }
}

/// The arguments of the child process.
#[derive(Debug, clap::Args)]
pub struct ChildOptions {
    #[arg(long)]
    name: String,
    #[arg(long)]
    max_file: usize,
    #[arg(long)]
    max_memory: u64,
    #[arg(long)]
    max_seconds: u64,
}

/// Runs the child process: reads stdin, writes the outcome to stdout, and exits.
pub fn child(options: &ChildOptions) -> ExitCode {
    if let Err(error) = confine(options) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    let mut bytes = Vec::new();
    let input = std::io::stdin().lock().take(options.max_file as u64 + 1);
    if { input }.read_to_end(&mut bytes).is_err() {
        return ExitCode::FAILURE;
    }
    let mut limits = ParseLimits::default();
    limits.max_file_bytes = options.max_file;
    let outcome = match parse(&options.name, &bytes, &limits) {
        Ok(parsed) => Outcome::Parsed(parsed),
        Err(error) => Outcome::Error(ExtractError::new(
            (&error).into(),
            error.code(),
            &public_message(&error),
        )),
    };
    drop(bytes);
    match write(&outcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn write(outcome: &Outcome) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    out.write_all(&[b'\n', SEPARATOR])?;
    serde_json::to_writer(&mut out, outcome)?;
    out.flush()
}

/// Returns the message for the user, without the details of a parser about a damaged file.
fn public_message(error: &ParseError) -> String {
    match error {
        ParseError::BadPdf { .. } => "the pdf is damaged".to_owned(),
        error => error.to_string(),
    }
}

/// Limits the resources of this process before it reads the first byte.
#[cfg(unix)]
fn confine(options: &ChildOptions) -> std::io::Result<()> {
    use rlimit::Resource;
    for (resource, most) in [
        (Resource::AS, options.max_memory),
        // In case the parent was killed and cannot enforce the time-out.
        (Resource::CPU, options.max_seconds),
        // The process writes no files, and a core dump would contain the document.
        (Resource::FSIZE, 0),
        (Resource::CORE, 0),
    ] {
        rlimit::setrlimit(resource, most, most)?;
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the unix one can fail")]
fn confine(_options: &ChildOptions) -> std::io::Result<()> {
    Ok(())
}
