//! A reader of a turn that reconnects whenever it is cut off, to any server, and records what it
//! receives.
//!
//! It parses the wires itself. The crate's decoders would reject the defects that the check has to
//! see.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ragwire_test_support::history::{End, History, ReceivedFrame, Visit, VisitEnd};
use serde_json::{Value, json};

/// The time-out of any operation. All of them normally need less than a tenth of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Pause after a visit without frames.
const PAUSE: Duration = Duration::from_millis(20);

/// A wire with numbered frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    Lines,
    Events,
}

impl Numbered {
    pub(crate) const BOTH: [Self; 2] = [Self::Lines, Self::Events];

    fn accept(self) -> (&'static str, &'static str) {
        let media_type = match self {
            Self::Lines => "application/x-ndjson",
            Self::Events => "text/event-stream",
        };
        ("accept", media_type)
    }

    /// Takes the next complete frame out of the received bytes.
    fn next(self, bytes: &mut BytesMut) -> Option<ReceivedFrame> {
        loop {
            let record = match self {
                Self::Lines => {
                    let end = bytes.iter().position(|byte| *byte == b'\n')?;
                    bytes.split_to(end + 1).split_to(end).freeze()
                }
                Self::Events => {
                    let end = bytes.windows(2).position(|pair| pair == b"\n\n")?;
                    bytes.split_to(end + 2).split_to(end).freeze()
                }
            };
            if let Some(seen) = self.read(&record) {
                return Some(seen);
            }
        }
    }

    /// Parses a record; `None` if it contains no frame, like a keep-alive.
    fn read(self, record: &Bytes) -> Option<ReceivedFrame> {
        match self {
            Self::Lines if record.is_empty() => None,
            Self::Lines => Some(ReceivedFrame::from_line(record).unwrap()),
            Self::Events => {
                let text = std::str::from_utf8(record).unwrap();
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
                let data = field("data: ")?;
                Some(ReceivedFrame::from_event(field("id: ").unwrap_or_default(), data.as_bytes()).unwrap())
            }
        }
    }
}

/// Sends a request on a separate connection, so that a broken connection affects one request only.
pub(crate) async fn send(
    method: Method,
    address: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Option<hyper::Response<Incoming>> {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build_http();
    let mut request = Request::builder().method(method).uri(format!("{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = request.body(Full::new(body.into())).unwrap();
    tokio::time::timeout(PATIENCE, client.request(request))
        .await
        .expect("a server answers or refuses")
        .ok()
}

/// Sends a request that is answered with JSON; returns the status and the body, or `None` if the
/// server does not answer.
pub(crate) async fn call(
    method: Method,
    address: &str,
    path: &str,
    body: Option<Value>,
) -> Option<(u16, Value)> {
    call_with(method, address, path, &[], body).await
}

/// Like [`call`], with headers.
pub(crate) async fn call_with(
    method: Method,
    address: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<Value>,
) -> Option<(u16, Value)> {
    let (head, body) = send(method, address, path, headers, body).await?.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    Some((
        head.status.as_u16(),
        serde_json::from_slice(&body).unwrap_or(Value::Null),
    ))
}

/// Asks a question and starts to read its turn. The error is the status and the body of a refusal.
pub(crate) async fn ask(
    reader: &str,
    wire: Numbered,
    address: &str,
    prompt: &str,
) -> Result<Reader, (u16, Value)> {
    let question = json!({ "prompt": prompt });
    let response = send(
        Method::POST,
        address,
        "/v1/turns",
        &[wire.accept()],
        Some(question),
    )
    .await;
    let response = response.ok_or((0, Value::Null))?;
    let status = response.status().as_u16();
    if status != 200 {
        let body = response.into_body().collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        return Err((status, serde_json::from_slice(&body).unwrap_or_default()));
    }
    let turn = response.headers()["x-ragwire-turn"].to_str().unwrap().to_owned();
    let mut reader = Reader::new(reader, wire, &turn);
    reader.body = Some(response.into_body());
    reader.history.visits.push(Visit {
        from: 0,
        frames: Vec::new(),
        ended: VisitEnd::Disconnected,
    });
    Ok(reader)
}

/// A reader of a turn.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) turn: String,
    pub(crate) history: History,
    wire: Numbered,
    /// The index at which it begins.
    start: u64,
    body: Option<Incoming>,
    bytes: BytesMut,
}

impl Reader {
    /// Creates a reader that has received nothing yet.
    pub(crate) fn new(name: &str, wire: Numbered, turn: &str) -> Self {
        Self::from(name, wire, turn, 0)
    }

    /// Creates a reader that has received the frames before `start` elsewhere.
    pub(crate) fn from(name: &str, wire: Numbered, turn: &str, start: u64) -> Self {
        Self {
            turn: turn.to_owned(),
            history: History::new(name),
            wire,
            start,
            body: None,
            bytes: BytesMut::new(),
        }
    }

    /// Changes the wire for the next visit.
    pub(crate) fn on(&mut self, wire: Numbered) {
        self.leave();
        self.wire = wire;
    }

    /// Closes its connection.
    pub(crate) fn leave(&mut self) {
        self.body = None;
        self.bytes.clear();
    }

    /// Returns the index of the first frame that it does not have.
    pub(crate) fn next_index(&self) -> u64 {
        match self.history.visits.is_empty() {
            true => self.start,
            false => self.history.next(),
        }
    }

    /// Connects to a server and asks for the remaining frames. Returns whether there is a stream.
    pub(crate) async fn visit(&mut self, address: &str) -> bool {
        self.leave();
        let from = self.next_index();
        let path = format!("/v1/turns/{}/stream?from={from}", self.turn);
        let response = send(Method::GET, address, &path, &[self.wire.accept()], None).await;
        let ended = match response {
            None => VisitEnd::Disconnected,
            Some(response) => match response.status().as_u16() {
                200 => {
                    self.body = Some(response.into_body());
                    VisitEnd::Disconnected
                }
                204 => VisitEnd::NothingLeft,
                status => VisitEnd::Refused(status),
            },
        };
        self.history.visits.push(Visit {
            from,
            frames: Vec::new(),
            ended,
        });
        self.body.is_some()
    }

    /// Receives the next frame; `None` if the connection has ended, which is recorded in the
    /// history.
    pub(crate) async fn next(&mut self) -> Option<ReceivedFrame> {
        let next = tokio::time::timeout(PATIENCE, self.next_in_time());
        next.await
            .unwrap_or_else(|_| panic!("no frame arrives: {:?}", self.history))
    }

    async fn next_in_time(&mut self) -> Option<ReceivedFrame> {
        loop {
            let visit = self.history.visits.last_mut()?;
            if let Some(seen) = self.wire.next(&mut self.bytes) {
                visit.frames.push(seen.clone());
                return Some(seen);
            }
            match self.body.as_mut()?.frame().await {
                Some(Ok(frame)) => self
                    .bytes
                    .extend_from_slice(&frame.into_data().unwrap_or_default()),
                end => {
                    if end.is_none() {
                        assert!(self.bytes.is_empty(), "half a frame: {:?}", self.bytes);
                        visit.ended = VisitEnd::Complete;
                    }
                    self.leave();
                    return None;
                }
            }
        }
    }

    /// Receives that many frames; returns false if the connection ended before.
    pub(crate) async fn read(&mut self, frames: u64) -> bool {
        for _ in 0..frames {
            if self.next().await.is_none() {
                return false;
            }
        }
        true
    }

    /// Returns whether no more frames can come: the turn has ended, nothing is left, or it is lost
    /// for good.
    pub(crate) fn is_done(&self) -> bool {
        self.history.visits.last().is_some_and(|visit| match visit.ended {
            VisitEnd::NothingLeft | VisitEnd::Refused(404 | 409 | 410) => true,
            VisitEnd::Refused(_) => false,
            VisitEnd::Complete | VisitEnd::Disconnected => {
                visit.frames.last().is_some_and(|seen| seen.end.is_some())
            }
        })
    }

    /// Reads to the end, on one server after the other, with as many connections as it takes.
    pub(crate) async fn follow<const N: usize>(&mut self, addresses: [&str; N]) {
        let reading = async {
            for address in addresses.iter().cycle() {
                while self.next().await.is_some() {}
                if self.is_done() {
                    break;
                }
                if !self.visit(address).await {
                    if self.is_done() {
                        break;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, reading).await;
        assert!(in_time.is_ok(), "the turn does not end: {:?}", self.history);
    }

    /// Returns the end that it received.
    pub(crate) fn end(&self) -> Option<&End> {
        self.history.visits.last()?.frames.last()?.end.as_ref()
    }

    /// Returns all text that it received.
    pub(crate) fn text(&self) -> String {
        let frames = self.history.visits.iter().flat_map(|visit| &visit.frames);
        let texts = frames.filter_map(|seen| {
            let value: Value = serde_json::from_slice(&seen.bytes).unwrap();
            Some(
                value
                    .get("text")
                    .filter(|_| value.get("event").is_none())?
                    .as_str()?
                    .to_owned(),
            )
        });
        texts.collect()
    }
}

/// Returns the complete answer to `fault:paced WORDS … NAME`.
pub(crate) fn paced_text(words: u32, name: &str) -> String {
    (1..=words).map(|word| format!("{name}-{word} ")).collect()
}
