//! A test double of a Qdrant server: gRPC on a real socket with the messages of `qdrant-client`. It
//! records the requests and returns prepared answers.
//!
//! [`Double::start`] keeps only the configuration of one collection. [`Double::searching`] keeps
//! points in any number of collections, and searches them, exactly and slowly.

mod engine;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use qdrant_client::qdrant::{
    CollectionConfig, CollectionInfo, CollectionOperationResponse, CollectionParams, CountResponse,
    CountResult, CreateCollection, FacetResponse, GetCollectionInfoResponse, PointsOperationResponse,
    QueryResponse,
};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The reply to a request in place of its usual answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A message.
    Message(Vec<u8>),
    /// A status other than 0.
    Status(i32),
    /// `RESOURCE_EXHAUSTED` with the seconds to wait before a retry.
    Busy(u64),
    /// No answer, ever.
    Hang,
    /// Half a message, then the connection is closed.
    Cut,
    /// The usual answer.
    Usual,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    /// The method, such as `Points/Query`.
    pub method: String,
    /// Its metadata.
    pub headers: HeaderMap,
    /// Its message.
    pub message: Bytes,
}

#[derive(Debug, Default)]
struct State {
    engine: Option<engine::Engine>,
    collection: Option<CreateCollection>,
    requests: Vec<RecordedRequest>,
    /// Bytes of messages in answers.
    answered: usize,
    replies: HashMap<&'static str, VecDeque<Reply>>,
    always: HashMap<&'static str, Reply>,
}

/// The server, which stops when the value is dropped.
#[derive(Debug)]
pub struct Double {
    /// Its address.
    pub url: String,
    state: Arc<Mutex<State>>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Double {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Double {
    /// Starts a server without any points.
    pub async fn start() -> Self {
        Self::with(State::default()).await
    }

    /// Starts a server that keeps points and searches them.
    pub async fn searching() -> Self {
        Self::with(State {
            engine: Some(engine::Engine::default()),
            ..State::default()
        })
        .await
    }

    /// Returns the number of points of each collection of a searching server.
    pub fn points(&self) -> BTreeMap<String, usize> {
        let state = self.state.lock().unwrap();
        state
            .engine
            .as_ref()
            .map(engine::Engine::points)
            .unwrap_or_default()
    }

    /// Gives every further request of a method its usual answer.
    pub fn never(&self, method: &'static str) {
        let mut state = self.state.lock().unwrap();
        state.always.remove(method);
        state.replies.remove(method);
    }

    async fn with(state: State) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(state));
        #[expect(clippy::disallowed_methods, reason = "ends with the double")]
        let server = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self { url, state, server }
    }

    /// Acts as if this collection had been created before.
    pub fn holds(&self, collection: Option<CreateCollection>) {
        self.state.lock().unwrap().collection = collection;
    }

    /// Returns how the collection was created, if it was.
    pub fn collection(&self) -> Option<CreateCollection> {
        self.state.lock().unwrap().collection.clone()
    }

    /// Sets the replies to the next requests of a method. Later requests get their usual answers.
    pub fn next(&self, method: &'static str, replies: impl IntoIterator<Item = Reply>) {
        self.state
            .lock()
            .unwrap()
            .replies
            .entry(method)
            .or_default()
            .extend(replies);
    }

    /// Sets the reply to every further request of a method.
    pub fn always(&self, method: &'static str, reply: Reply) {
        self.state.lock().unwrap().always.insert(method, reply);
    }

    /// Takes the requests received since the previous call.
    pub fn take_requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }

    /// Takes the number of bytes of the messages in answers since the previous call.
    pub fn take_answered(&self) -> usize {
        std::mem::take(&mut self.state.lock().unwrap().answered)
    }

    /// Takes the requests of one method, decoded.
    pub fn messages<M: Message + Default>(&self, method: &str) -> Vec<M> {
        let requests = self
            .take_requests()
            .into_iter()
            .filter(|request| request.method == method);
        requests
            .map(|request| M::decode(request.message).unwrap())
            .collect()
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let (state, cut) = (Arc::clone(&state), Arc::new(Notify::new()));
        let service = hyper::service::service_fn({
            let cut = Arc::clone(&cut);
            move |request| answer(request, Arc::clone(&state), Arc::clone(&cut))
        });
        connections.spawn(async move {
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(socket), service);
            tokio::select! {
                _ = connection => {}
                () = cut.notified() => {}
            }
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<State>>,
    cut: Arc<Notify>,
) -> Result<Response<Answer>, Infallible> {
    let (head, body) = request.into_parts();
    let Ok(message) = body.collect().await else {
        // The client is gone, and its connection ends this.
        return std::future::pending().await;
    };
    let mut message = message.to_bytes();
    // One byte for the compression flag, four for the length.
    assert_eq!(
        (message[0], message.len()),
        (
            0,
            5 + u32::from_be_bytes(message[1..5].try_into().unwrap()) as usize
        )
    );
    let method = head.uri.path().strip_prefix("/qdrant.").unwrap().to_owned();
    let request = RecordedRequest {
        method: method.clone(),
        headers: head.headers,
        message: message.split_off(5),
    };
    let reply = {
        let mut state = state.lock().unwrap();
        state.requests.push(request.clone());
        let prepared = state
            .replies
            .get_mut(method.as_str())
            .and_then(VecDeque::pop_front);
        let prepared = prepared.or_else(|| state.always.get(method.as_str()).cloned());
        let reply = match prepared {
            None | Some(Reply::Usual) => usual(&mut state, &request),
            Some(prepared) => prepared,
        };
        if let Reply::Message(message) = &reply {
            state.answered += message.len();
        }
        reply
    };
    let mut trailers = HeaderMap::new();
    let mut data = Vec::new();
    match reply {
        Reply::Message(message) => {
            data = frame(&message);
            trailers.insert("grpc-status", HeaderValue::from(0));
        }
        Reply::Status(status) => {
            trailers.insert("grpc-status", HeaderValue::from(status));
            trailers.insert("grpc-message", HeaderValue::from_static("as prepared"));
        }
        Reply::Busy(seconds) => {
            trailers.insert("grpc-status", HeaderValue::from(8));
            trailers.insert("retry-after", HeaderValue::from(seconds));
        }
        Reply::Hang | Reply::Usual => std::future::pending().await,
        Reply::Cut => {
            data = frame(&[0; 100]);
            data.truncate(50);
        }
    }
    let answer = Answer {
        data: Some(Full::new(data.into())),
        cut: trailers.is_empty().then_some(cut),
        trailers: Some(trailers),
    };
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(answer).unwrap())
}

fn frame(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0];
    frame.extend((message.len() as u32).to_be_bytes());
    frame.extend(message);
    frame
}

/// The answers of the engine, or of a server without any points.
fn usual(state: &mut State, request: &RecordedRequest) -> Reply {
    if let Some(engine) = &mut state.engine {
        return match engine.answer(&request.method, &request.message) {
            Ok(message) => Reply::Message(message),
            Err(status) => Reply::Status(status),
        };
    }
    Reply::Message(match request.method.as_str() {
        "Collections/Get" => {
            let Some(collection) = state.collection.clone() else {
                return Reply::Status(5);
            };
            let params = CollectionParams {
                vectors_config: collection.vectors_config,
                sparse_vectors_config: collection.sparse_vectors_config,
                ..CollectionParams::default()
            };
            let info = CollectionInfo {
                config: Some(CollectionConfig {
                    params: Some(params),
                    metadata: collection.metadata,
                    ..CollectionConfig::default()
                }),
                ..CollectionInfo::default()
            };
            let result = Some(info);
            GetCollectionInfoResponse { result, time: 0.0 }.encode_to_vec()
        }
        "Collections/Create" => {
            if state.collection.is_some() {
                return Reply::Status(6);
            }
            state.collection = Some(CreateCollection::decode(request.message.clone()).unwrap());
            CollectionOperationResponse {
                result: true,
                time: 0.0,
            }
            .encode_to_vec()
        }
        "Points/Query" => QueryResponse::default().encode_to_vec(),
        "Points/Facet" => FacetResponse::default().encode_to_vec(),
        "Points/Count" => CountResponse {
            result: Some(CountResult { count: 0 }),
            ..CountResponse::default()
        }
        .encode_to_vec(),
        "Points/Upsert" | "Points/Delete" | "Points/CreateFieldIndex" => {
            PointsOperationResponse::default().encode_to_vec()
        }
        other => panic!("unexpected request: {other}"),
    })
}

/// Data, then the trailers or the closed connection.
#[derive(Debug)]
struct Answer {
    data: Option<Full<Bytes>>,
    trailers: Option<HeaderMap>,
    cut: Option<Arc<Notify>>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(data) = &mut self.data
            && let Poll::Ready(Some(frame)) = Pin::new(data).poll_frame(context)
        {
            return Poll::Ready(Some(frame));
        }
        self.data = None;
        if let Some(cut) = &self.cut {
            cut.notify_one();
            return Poll::Pending;
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }
}
