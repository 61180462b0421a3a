//! The server's side of a process that reads documents.

use std::process::ExitStatus;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::{ExtractError, Extractor, MAX_OUTPUT_BYTES, Outcome, SEPARATOR};

/// What the process replied to a document.
#[derive(Debug)]
pub(super) enum Reply {
    /// The document, or why it cannot be read.
    Outcome(Box<Outcome>),
    /// The reply is longer than [`MAX_OUTPUT_BYTES`].
    TooLong,
    /// The process has ended.
    Ended(ExitStatus),
}

/// A process that reads one document after another. Dropping it kills the process.
#[derive(Debug)]
pub(super) struct Worker {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    documents: u32,
}

impl Worker {
    /// Starts a process and waits until it runs. If it cannot, that is not because of a document.
    pub(super) async fn start(extractor: &Extractor) -> std::io::Result<Self> {
        let mut process = extractor.command().spawn()?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both are piped")
        };
        let mut worker = Self {
            process,
            stdin,
            stdout: BufReader::new(stdout),
            documents: 0,
        };
        if worker.pass_separator().await? {
            return Ok(worker);
        }
        let status = worker.process.wait().await?;
        Err(std::io::Error::other(format!(
            "it ended before it could read: {status}"
        )))
    }

    /// Returns how many documents it has got.
    pub(super) fn documents(&self) -> u32 {
        self.documents
    }

    /// Has a document read. After an error, and if the future is dropped, the worker is of no use.
    pub(super) async fn read(&mut self, name: &str, bytes: &[u8]) -> Result<Reply, ExtractError> {
        self.documents += 1;
        // A process that ends in the meantime may have replied why; that is checked below.
        let _ = self.send(name, bytes).await;
        match self.receive().await {
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => {
                let ended = self.process.wait().await;
                ended
                    .map(Reply::Ended)
                    .map_err(|error| ExtractError::failed("wait", &error))
            }
            Err(error) => Err(ExtractError::failed("read", &error)),
        }
    }

    async fn send(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        self.stdin.write_u64_le(name.len() as u64).await?;
        self.stdin.write_u64_le(bytes.len() as u64).await?;
        self.stdin.write_all(name.as_bytes()).await?;
        self.stdin.write_all(bytes).await?;
        self.stdin.flush().await
    }

    /// Reads up to and including the next separator. Returns `false` if the process ended before it.
    async fn pass_separator(&mut self) -> std::io::Result<bool> {
        // Where stdout could not be redirected, a parser may have printed before the reply.
        loop {
            let buffered = self.stdout.fill_buf().await?;
            if buffered.is_empty() {
                return Ok(false);
            }
            let at = buffered.iter().position(|byte| *byte == SEPARATOR);
            let length = buffered.len();
            self.stdout.consume(at.map_or(length, |at| at + 1));
            if at.is_some() {
                return Ok(true);
            }
        }
    }

    /// Returns `None` if the process ended without a whole reply.
    async fn receive(&mut self) -> std::io::Result<Option<Reply>> {
        if !self.pass_separator().await? {
            return Ok(None);
        }
        let Some(length) = whole(self.stdout.read_u64_le().await)? else {
            return Ok(None);
        };
        if length > MAX_OUTPUT_BYTES {
            return Ok(Some(Reply::TooLong));
        }
        let mut json = vec![0; length as usize];
        if whole(self.stdout.read_exact(&mut json).await)?.is_none() {
            return Ok(None);
        }
        let outcome = serde_json::from_slice(&json)?;
        Ok(Some(Reply::Outcome(Box::new(outcome))))
    }
}

/// Distinguishes the end of a stream from its failure.
fn whole<T>(read: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
