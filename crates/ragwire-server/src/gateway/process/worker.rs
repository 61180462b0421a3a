//! One child process: it answers one question at a time, in JSON lines on its stdin and stdout.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use ragwire::wire::Limits;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::lines::{Excess, LineError, LineReader};
use crate::gateway::error::GatewayError;
use crate::gateway::humans::{Channel, Delivery, HumanAnswer};
use crate::settings::layers::PREFIX;

/// Longest line of stderr in the log, in bytes; a traceback's lines are shorter.
const MAX_LOG_BYTES: usize = 1024;
/// Lines of stderr that are logged per second and process: a traceback is logged whole, and a loop
/// that prints cannot fill the disk.
const MAX_LOG_LINES: u32 = 100;
const LOG_WINDOW: Duration = Duration::from_secs(1);
/// How long a process may take to end a cancelled turn before it is killed: it may be inside of a
/// call that it cannot leave.
const CANCEL: Duration = Duration::from_secs(5);
/// How long a process may take to read a line from its stdin.
const WRITE: Duration = Duration::from_secs(10);
/// How long a process that closed its output may take to exit, so that its status can be logged.
const EXIT: Duration = Duration::from_secs(1);

/// A running process. Dropping it kills the process and its own children.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    /// The process, and the group that it leads; 0 on a system without process IDs.
    pid: u32,
    /// The process was waited for, so that its ID may be another's by now.
    is_reaped: bool,
    stdin: Stdin,
    lines: LineReader<ChildStdout>,
}

/// The stdin of a process, which the turn and the answers of humans share.
type Stdin = Arc<Mutex<ChildStdin>>;

impl Worker {
    /// Starts the process.
    pub(super) fn start(command: &[String]) -> Result<Self, GatewayError> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(GatewayError::Start(std::io::ErrorKind::InvalidInput.into()));
        };
        let mut starting = Command::new(program);
        starting
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // The settings of this server, with its keys, are not the orchestrator's.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX)) {
            starting.env_remove(name);
        }
        // A group of its own, so that its children can be killed with it.
        #[cfg(unix)]
        starting.process_group(0);
        let mut child = starting.spawn().map_err(GatewayError::Start)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            unreachable!("all three are piped")
        };
        let pid = child.id().unwrap_or_default();
        tracing::info!(pid, program, "started an orchestrator process");
        // Ends with the process, which closes its stderr.
        tokio::runtime::Handle::current().spawn(log(stderr, pid));
        Ok(Self {
            child,
            pid,
            is_reaped: false,
            stdin: Arc::new(Mutex::new(stdin)),
            lines: LineReader::new(stdout, max_line_bytes(), Excess::Refuse),
        })
    }

    /// Returns `true` while the process runs.
    pub(super) fn is_running(&mut self) -> bool {
        self.is_reaped = !matches!(self.child.try_wait(), Ok(None));
        !self.is_reaped
    }

    /// Returns the process ID.
    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Writes a line.
    pub(super) async fn write(&self, line: &Value) -> Result<(), GatewayError> {
        write(&self.stdin, line).await
    }

    /// Returns the next line.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<&[u8], GatewayError> {
        match self.lines.next().await {
            Ok(Some(line)) => Ok(line),
            Ok(None) => Err(GatewayError::Exited("it closed its output".into())),
            Err(LineError::Io(error)) => Err(GatewayError::Exited(error.to_string())),
            Err(LineError::TooLong) => Err(GatewayError::LineTooLong(max_line_bytes())),
        }
    }

    /// Cancels a turn and waits for its end. Returns `false` if the process cannot be used again.
    pub(super) async fn cancel(&mut self, turn: &str) -> bool {
        let end = Instant::now() + CANCEL;
        let cancelled = tokio::time::timeout_at(end, async {
            self.write(&json!({"turn": turn, "cancel": true})).await?;
            loop {
                let line: Value = serde_json::from_slice(self.next().await?).unwrap_or_default();
                if line["turn"] == turn && !line["end"].is_null() {
                    return Ok::<(), GatewayError>(());
                }
            }
        });
        matches!(cancelled.await, Ok(Ok(())))
    }

    /// Returns the channel for human answers.
    pub(super) fn channel(&self, turn: &str) -> ProcessChannel {
        ProcessChannel {
            turn: turn.to_owned(),
            stdin: Arc::clone(&self.stdin),
        }
    }

    /// Returns how the process ended, after it closed its output.
    pub(super) async fn exited(&mut self) -> GatewayError {
        // Its own children may still run.
        self.kill();
        let status = match timeout(EXIT, self.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its output".into(),
        };
        GatewayError::Exited(status)
    }

    fn kill(&mut self) {
        if !self.is_reaped {
            self.is_reaped = true;
            kill_group(self.pid);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The longest line, which may be an event or the end.
fn max_line_bytes() -> usize {
    let limits = Limits::default();
    limits.max_line_bytes.max(limits.max_trailer_bytes)
}

/// Kills a process and its children, which share its group. On other systems than unix only the
/// process itself is killed, when it is dropped.
pub(super) fn kill_group(group: u32) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(group).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}

async fn write(stdin: &Mutex<ChildStdin>, line: &Value) -> Result<(), GatewayError> {
    let mut line = line.to_string();
    line.push('\n');
    let written = timeout(WRITE, async {
        let mut stdin = stdin.lock().await;
        stdin.write_all(line.as_bytes()).await?;
        stdin.flush().await
    });
    match written.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(GatewayError::Exited(error.to_string())),
        Err(_) => Err(GatewayError::Silent {
            what: "read its input",
            after: WRITE,
        }),
    }
}

/// Writes human answers.
pub(super) struct ProcessChannel {
    turn: String,
    stdin: Stdin,
}

impl Channel for ProcessChannel {
    fn deliver(&self, answer: HumanAnswer) -> Delivery {
        let line = json!({"turn": self.turn, "answer": answer});
        let stdin = Arc::clone(&self.stdin);
        Box::pin(async move { write(&stdin, &line).await })
    }
}

/// Logs what the process writes to stderr, until the process closes it.
async fn log(stderr: ChildStderr, pid: u32) {
    let mut lines = LineReader::new(stderr, MAX_LOG_BYTES, Excess::Cut);
    let (mut window, mut logged, mut dropped) = (Instant::now(), 0, 0_u64);
    while let Ok(Some(line)) = lines.next().await {
        if window.elapsed() >= LOG_WINDOW {
            if dropped > 0 {
                tracing::warn!(pid, dropped, "the orchestrator writes too many lines to stderr");
            }
            (window, logged, dropped) = (Instant::now(), 0, 0);
        }
        if logged == MAX_LOG_LINES {
            dropped += 1;
            continue;
        }
        logged += 1;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end().replace(char::is_control, " ");
        tracing::info!(target: "ragwire_server::orchestrator", pid, "{line}");
    }
}
