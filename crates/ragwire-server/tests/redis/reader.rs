//! A reader of a turn that comes back as often as it is cut off, on whatever server, and writes down what it saw.
//!
//! It reads the wires by itself, not with the crate's decoders: those refuse what the judge wants to see.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use ragwire_test_support::history::{End, Ended, History, Seen, Visit};
use serde_json::{Value, json};

/// How long anything may take before the test fails: nothing here takes a tenth of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two visits of which the first brought nothing.
const PAUSE: Duration = Duration::from_millis(20);

/// A wire whose frames have an index.
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

    /// Takes the next frame out of what arrived, once it is whole.
    fn next(self, bytes: &mut BytesMut) -> Option<Seen> {
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

    /// One record; none where it is a keep-alive or says nothing of a frame.
    fn read(self, record: &Bytes) -> Option<Seen> {
        match self {
            Self::Lines if record.is_empty() => None,
            Self::Lines => Some(Seen::from_line(record).unwrap()),
            Self::Events => {
                let text = std::str::from_utf8(record).unwrap();
                let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
                let data = field("data: ")?;
                Some(Seen::from_event(field("id: ").unwrap_or_default(), data.as_bytes()).unwrap())
            }
        }
    }
}

/// An HTTP client for one request after the other, each on a connection of its own: what is cut is cut.
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

/// A request that is answered with JSON: the status and the body. None where the server is not there.
pub(crate) async fn call(
    method: Method,
    address: &str,
    path: &str,
    body: Option<Value>,
) -> Option<(u16, Value)> {
    call_with(method, address, path, &[], body).await
}

/// The same with headers of its own.
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

/// Asks a question and begins to read its turn. The error is the status and the body of a refusal.
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
        ended: Ended::Cut,
    });
    Ok(reader)
}

/// One who reads a turn.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) turn: String,
    pub(crate) history: History,
    wire: Numbered,
    /// Where it begins.
    start: u64,
    body: Option<Incoming>,
    bytes: BytesMut,
}

impl Reader {
    /// One who has read nothing yet.
    pub(crate) fn new(name: &str, wire: Numbered, turn: &str) -> Self {
        Self::from(name, wire, turn, 0)
    }

    /// One who has read the frames before `start` elsewhere.
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

    /// Leaves the connection that it has.
    pub(crate) fn leave(&mut self) {
        self.body = None;
        self.bytes.clear();
    }

    /// The index of the first frame that it does not have.
    pub(crate) fn next_index(&self) -> u64 {
        match self.history.visits.is_empty() {
            true => self.start,
            false => self.history.next(),
        }
    }

    /// Comes to a server and asks for the rest. Whether there is something to read.
    pub(crate) async fn visit(&mut self, address: &str) -> bool {
        self.leave();
        let from = self.next_index();
        let path = format!("/v1/turns/{}/stream?from={from}", self.turn);
        let response = send(Method::GET, address, &path, &[self.wire.accept()], None).await;
        let ended = match response {
            None => Ended::Cut,
            Some(response) => match response.status().as_u16() {
                200 => {
                    self.body = Some(response.into_body());
                    Ended::Cut
                }
                204 => Ended::Nothing,
                status => Ended::Refused(status),
            },
        };
        self.history.visits.push(Visit {
            from,
            frames: Vec::new(),
            ended,
        });
        self.body.is_some()
    }

    /// The next frame. None where the connection is over, however it ended: then it stands in the history.
    pub(crate) async fn next(&mut self) -> Option<Seen> {
        let next = tokio::time::timeout(PATIENCE, self.next_in_time());
        next.await
            .unwrap_or_else(|_| panic!("nothing comes: {:?}", self.history))
    }

    async fn next_in_time(&mut self) -> Option<Seen> {
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
                        visit.ended = Ended::Whole;
                    }
                    self.leave();
                    return None;
                }
            }
        }
    }

    /// Reads so many frames, or less where the connection is over before. False then.
    pub(crate) async fn read(&mut self, frames: u64) -> bool {
        for _ in 0..frames {
            if self.next().await.is_none() {
                return false;
            }
        }
        true
    }

    /// Whether nothing more is to be expected: an end of the turn, or that there is nothing left, or that it is lost for good.
    pub(crate) fn is_done(&self) -> bool {
        self.history.visits.last().is_some_and(|visit| match visit.ended {
            Ended::Nothing | Ended::Refused(404 | 409 | 410) => true,
            Ended::Refused(_) => false,
            Ended::Whole | Ended::Cut => visit.frames.last().is_some_and(|seen| seen.end.is_some()),
        })
    }

    /// Reads to the end, on this server and then that, as often as it has to come back.
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
        assert!(in_time.is_ok(), "it never ends: {:?}", self.history);
    }

    /// How the turn ended, for it.
    pub(crate) fn end(&self) -> Option<&End> {
        self.history.visits.last()?.frames.last()?.end.as_ref()
    }

    /// All text that it was given.
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

/// What `fault:paced WORDS … NAME` says when it is whole.
pub(crate) fn paced_text(words: u32, name: &str) -> String {
    (1..=words).map(|word| format!("{name}-{word} ")).collect()
}
