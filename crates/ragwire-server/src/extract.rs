//! Reads documents in a process of their own.
//!
//! A parser of files from strangers can be made to loop, to fill memory and to overflow its stack, and none of that can be
//! caught within a process. So the server starts itself again for each document: bytes on stdin, the text on stdout, with a
//! limit on time, memory and output, and nothing of the server's environment. What becomes of that process is one document's
//! misfortune.

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

/// Most bytes of output: the parser's 16 MiB of text, with headings and JSON around it.
const MAX_OUTPUT_BYTES: u64 = 128 << 20;
/// Stands before the answer. JSON never holds it raw, so whatever a parser prints of its own accord comes before the last one.
const ANSWER: u8 = 0x1e;

/// Starts the processes.
#[derive(Clone, Debug)]
pub struct Extractor {
    program: PathBuf,
    time: Duration,
    memory: Size,
    max_file: Size,
    places: Arc<Semaphore>,
}

/// Why a document was not read. Fit for the one who sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ExtractError {
    /// Stable machine word: those of [`ParseError`], and `extract_timeout`, `extract_died`, `extract_failed`.
    pub code: String,
    /// What to tell.
    pub message: String,
}

impl ExtractError {
    fn new(code: &str, message: &str) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    fn failed(step: &str, error: &std::io::Error) -> Self {
        tracing::error!(%error, step, "the process that reads documents is in trouble");
        Self::new("extract_failed", "the document could not be read now")
    }
}

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Parsed(Parsed),
    Error(ExtractError),
}

impl Extractor {
    /// With the program to start, which has to know the command `extract`.
    pub fn new(program: PathBuf, settings: &Settings) -> Self {
        // More than there are cores would only make each slower, against the same wall-clock limit.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            program,
            time: *settings.extract_timeout,
            memory: settings.extract_memory,
            max_file: settings.max_upload_size,
            places: Arc::new(Semaphore::new(cores)),
        }
    }

    /// This very program.
    ///
    /// # Errors
    ///
    /// Where the system does not tell which file that is.
    pub fn this_program(settings: &Settings) -> std::io::Result<Self> {
        // On Linux the link still works after the file was replaced by a newer build.
        let link = PathBuf::from("/proc/self/exe");
        let program = if cfg!(target_os = "linux") && link.exists() {
            link
        } else {
            std::env::current_exe()?
        };
        Ok(Self::new(program, settings))
    }

    /// How many documents are read at a time.
    pub fn places(&self) -> usize {
        self.places.available_permits().max(1)
    }

    /// Reads a document. Waits for its turn where several are being read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the process.
    ///
    /// # Errors
    ///
    /// [`ExtractError`]; the server is none the worse for it.
    pub async fn extract(&self, name: &str, bytes: Bytes) -> Result<Parsed, ExtractError> {
        let Ok(_place) = self.places.acquire().await else {
            unreachable!("the semaphore is never closed")
        };
        let child = self
            .command(name)
            .spawn()
            .map_err(|error| ExtractError::failed("start", &error))?;
        // The child is killed when it is dropped, thus on a time-out too.
        match tokio::time::timeout(self.time, converse(child, bytes)).await {
            Ok(answered) => answered,
            Err(_) => {
                tracing::warn!("a document took too long to read");
                Err(ExtractError::new(
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
            // Parsers print what they stumble over, which may be pieces of the document.
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
        // A child that ended early says why in its answer, or does not say anything; either is looked at below.
        let _ = stdin.write_all(&bytes).await;
        let _ = stdin.shutdown().await;
    };
    let mut output = Vec::new();
    let mut stdout = stdout.take(MAX_OUTPUT_BYTES);
    let ((), read) = tokio::join!(write, stdout.read_to_end(&mut output));
    read.map_err(|error| ExtractError::failed("read", &error))?;
    if output.len() as u64 == MAX_OUTPUT_BYTES {
        return Err(ExtractError::new(
            "too_much_text",
            "the document holds too much text",
        ));
    }
    let status = child
        .wait()
        .await
        .map_err(|error| ExtractError::failed("wait", &error))?;
    let answer = output
        .iter()
        .rposition(|byte| *byte == ANSWER)
        .map(|at| &output[at + 1..]);
    match answer.map(serde_json::from_slice) {
        Some(Ok(Outcome::Parsed(parsed))) => Ok(parsed),
        Some(Ok(Outcome::Error(error))) => Err(error),
        // Out of memory, out of stack, or a panic within the parser.
        Some(Err(_)) | None => {
            tracing::warn!(%status, "a document ended the process that read it");
            Err(ExtractError::new(
                "extract_died",
                "the document is damaged, or needs more memory than it may have",
            ))
        }
    }
}

/// The child's side of the command line.
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

/// The child: reads stdin, answers on stdout, ends.
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
        Err(error) => Outcome::Error(ExtractError::new(error.code(), &in_words(&error))),
    };
    drop(bytes);
    match answer(&outcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(outcome: &Outcome) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    out.write_all(&[b'\n', ANSWER])?;
    serde_json::to_writer(&mut out, outcome)?;
    out.flush()
}

/// The words of a parser about a damaged file are for its author; everything else is plain.
fn in_words(error: &ParseError) -> String {
    match error {
        ParseError::BadPdf { .. } => "the pdf is damaged".to_owned(),
        error => error.to_string(),
    }
}

/// Takes from this process what a parser does not need, before it sees the first byte.
#[cfg(unix)]
fn confine(options: &ChildOptions) -> std::io::Result<()> {
    use rlimit::Resource;
    for (resource, most) in [
        (Resource::AS, options.max_memory),
        // In case the parent was killed and cannot keep the time.
        (Resource::CPU, options.max_seconds),
        // It writes no file, and a core dump would hold the document.
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
