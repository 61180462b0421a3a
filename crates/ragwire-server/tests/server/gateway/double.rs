//! An orchestrator over a real socket that plays a script for each request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What an orchestrator does after it has read a request.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Writes these bytes.
    Write(String),
    /// Writes a line without an end until the gateway closes the connection, 100 MB at most.
    Flood,
    /// Does nothing for a while.
    Pause(Duration),
    /// Waits until a request to the path with this ending has arrived.
    Await(&'static str),
    /// Waits until the gateway closes the connection.
    Hang,
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

    fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct State {
    seen: Vec<Seen>,
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
    /// Posts to `…/answer` are accepted.
    pub(super) async fn start(scripts: Vec<Vec<Step>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ask", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let mut tasks = JoinSet::new();
        let shared = Arc::clone(&state);
        tasks.spawn(async move {
            let (mut connections, mut asked) = (JoinSet::new(), 0);
            while let Ok((stream, _)) = listener.accept().await {
                let script = scripts[asked.min(scripts.len() - 1)].clone();
                let shared = Arc::clone(&shared);
                let mut stream = stream;
                let Some(seen) = read(&mut stream).await else {
                    continue;
                };
                let is_answer = seen.path().ends_with("/answer");
                shared.lock().unwrap().seen.push(seen);
                if is_answer {
                    let accepted = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    stream.write_all(accepted).await.unwrap();
                    continue;
                }
                asked += 1;
                connections.spawn(play(stream, script, shared));
            }
        });
        Self {
            url,
            state,
            _tasks: tasks,
        }
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

async fn read(stream: &mut TcpStream) -> Option<Seen> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut seen = Seen {
                head,
                body: Value::Null,
            };
            let length: usize = seen.header("content-length")?.parse().ok()?;
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

async fn play(mut stream: TcpStream, script: Vec<Step>, state: Arc<Mutex<State>>) {
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
            Step::Pause(time) => tokio::time::sleep(time).await,
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
