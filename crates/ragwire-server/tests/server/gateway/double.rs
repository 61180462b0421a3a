//! An orchestrator over a real socket that plays a script for each request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What an orchestrator does after it has read a request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Writes these bytes.
    Write(String),
    /// Writes a line without an end until the gateway closes the connection, 100 MB at most.
    Flood,
    /// Writes this chunk so many times, or until the gateway closes the connection.
    Repeat(String, usize),
    /// Does nothing for a while.
    Pause(Duration),
    /// Waits until a request to the path with this ending has arrived.
    Await(&'static str),
    /// Waits until the gateway closes the connection.
    Hang,
    /// Reads the next request on the same connection, which is closed after any other last step.
    Keep,
}

/// A request that arrived.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (other, value) = line.split_once(':')?;
            other.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(super) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }

    pub(super) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<Seen>,
    /// Questions, which are those requests that are not answers of humans.
    asked: usize,
    /// Connections.
    opened: usize,
    closed: usize,
    flooded: usize,
}

/// The running orchestrator. Dropping it ends all connections.
pub(super) struct Double {
    pub(super) url: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

impl Double {
    /// Plays the first script for the first question, and so on; the last one for all others.
    /// Posts to `…/answer` and deletions are accepted.
    pub(super) async fn start(scripts: Vec<Vec<Step>>) -> Self {
        Self::listen(scripts, None).await
    }

    /// The same over TLS.
    pub(super) async fn start_secure(scripts: Vec<Vec<Step>>, acceptor: TlsAcceptor) -> Self {
        Self::listen(scripts, Some(acceptor)).await
    }

    async fn listen(scripts: Vec<Vec<Step>>, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}/ask", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let mut tasks = JoinSet::new();
        let (shared, scripts) = (Arc::clone(&state), Arc::new(scripts));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                shared.lock().unwrap().opened += 1;
                let (scripts, shared) = (Arc::clone(&scripts), Arc::clone(&shared));
                let acceptor = acceptor.clone();
                connections.spawn(async move {
                    match acceptor {
                        None => serve(stream, &scripts, &shared).await,
                        // A gateway that does not trust the certificate has disconnected by now.
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &scripts, &shared).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            url,
            state,
            _tasks: tasks,
        }
    }

    /// Number of connections that were opened.
    pub(super) fn opened(&self) -> usize {
        self.state.lock().unwrap().opened
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    pub(super) fn flooded(&self) -> usize {
        self.state.lock().unwrap().flooded
    }

    /// Waits until the gateway has closed this many connections that hang.
    pub(super) async fn closed(&self, connections: usize) {
        until(|| self.state.lock().unwrap().closed >= connections).await;
    }
}

/// Waits until something is true, 5 seconds at most.
pub(super) async fn until(condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within 5 seconds");
}

/// A connection with or without TLS.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Plays a script for each question on a connection.
async fn serve(mut stream: impl Socket, scripts: &[Vec<Step>], state: &Mutex<State>) {
    while let Some(seen) = read(&mut stream).await {
        let is_answer = seen.path().ends_with("/answer") || seen.method() == "DELETE";
        let asked = {
            let mut state = state.lock().unwrap();
            state.seen.push(seen);
            state.asked += usize::from(!is_answer);
            state.asked
        };
        if is_answer {
            let accepted = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(accepted).await.unwrap();
            return;
        }
        let script = &scripts[asked.min(scripts.len()) - 1];
        play(&mut stream, script, state).await;
        if !matches!(script.last(), Some(Step::Keep)) {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

async fn read(stream: &mut impl Socket) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut seen = Seen {
                head,
                body: Value::Null,
            };
            let length: usize = seen
                .header("content-length")
                .map_or(Some(0), |length| length.parse().ok())?;
            if bytes.len() >= end + 4 + length {
                seen.body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or_default();
                return Some(seen);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn play(stream: &mut impl Socket, script: &[Step], state: &Mutex<State>) {
    for step in script {
        match step {
            Step::Write(bytes) => {
                if stream.write_all(bytes.as_bytes()).await.is_err() {
                    return;
                }
            }
            Step::Flood => {
                let piece = vec![b'x'; 64 * 1024];
                for _ in 0..1600 {
                    let size = format!("{:x}\r\n", piece.len());
                    let written = async {
                        stream.write_all(size.as_bytes()).await?;
                        stream.write_all(&piece).await?;
                        stream.write_all(b"\r\n").await
                    };
                    if written.await.is_err() {
                        break;
                    }
                    state.lock().unwrap().flooded += piece.len();
                }
            }
            Step::Repeat(text, times) => {
                for _ in 0..*times {
                    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                    if stream.write_all(chunk.as_bytes()).await.is_err() {
                        return;
                    }
                    state.lock().unwrap().flooded += text.len();
                }
            }
            Step::Keep => {}
            Step::Pause(time) => tokio::time::sleep(*time).await,
            Step::Await(path) => {
                let arrived = || {
                    state
                        .lock()
                        .unwrap()
                        .seen
                        .iter()
                        .any(|seen| seen.path().ends_with(path))
                };
                until(arrived).await;
            }
            Step::Hang => {
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
                state.lock().unwrap().closed += 1;
            }
        }
    }
}

/// The head of a streamed response with this content type.
pub(super) fn head(content_type: &str) -> Step {
    Step::Write(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
    ))
}

/// A whole response with a status.
pub(super) fn whole(status: &str, content_type: &str, body: &str) -> Step {
    Step::Write(format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    ))
}

/// A chunk of a streamed body.
pub(super) fn chunk(text: &str) -> Step {
    Step::Write(format!("{:x}\r\n{text}\r\n", text.len()))
}

/// The end of a streamed body.
pub(super) fn last() -> Step {
    Step::Write("0\r\n\r\n".to_owned())
}
