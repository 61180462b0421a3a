//! A double of the hub on a real socket: `resolve` redirects to the content, which is served in
//! ranges.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The behaviour of the hub.
#[derive(Clone, Debug)]
pub(crate) struct Likeness {
    /// The content of every file.
    pub(crate) content: Vec<u8>,
    /// The checksum that it announces.
    pub(crate) etag: String,
    pub(crate) commit: String,
    /// The status that `resolve` answers with instead.
    pub(crate) status: Option<u16>,
    /// After how many bytes each transfer breaks off.
    pub(crate) cut: Option<usize>,
    /// Whether it stalls there instead.
    pub(crate) hangs: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Double {
    pub(crate) endpoint: String,
    likeness: Arc<Mutex<Likeness>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Double {
    pub(crate) async fn new(content: &[u8], etag: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let double = Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            likeness: Arc::new(Mutex::new(Likeness {
                content: content.to_vec(),
                etag: etag.to_owned(),
                commit: COMMIT.to_owned(),
                status: None,
                cut: None,
                hangs: false,
            })),
            seen: Arc::default(),
        };
        let this = double.clone();
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let this = this.clone();
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        let response = this.answer(&request);
                        async { Ok::<_, Infallible>(response) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        double
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Likeness)) {
        change(&mut self.likeness.lock().unwrap());
    }

    /// Returns each request as `path range` and clears the list.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn answer(
        &self,
        request: &Request<Incoming>,
    ) -> Response<impl Body<Data = Bytes, Error = io::Error> + use<>> {
        let header = |name: &str| {
            let value = request.headers().get(name);
            value.map_or("", |value| value.to_str().unwrap())
        };
        let (path, range) = (request.uri().path(), header("range"));
        let line = format!("{path} {range} {}", header("authorization"));
        self.seen.lock().unwrap().push(line.trim().to_owned());
        let likeness = self.likeness.lock().unwrap().clone();
        let response = Response::builder();
        let (response, body, then) = if let Some(status) = likeness.status {
            (response.status(status), Bytes::from("<html>"), None)
        } else if path.starts_with("/cdn/") {
            let content = &likeness.content;
            let (from, to) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let from: usize = from.parse().unwrap();
            let to = to.parse().map_or(content.len(), |to: usize| to + 1);
            let whole = &content[from..to];
            let sent = likeness.cut.unwrap_or(whole.len()).min(whole.len());
            let response = response
                .status(206)
                .header(
                    "content-range",
                    format!("bytes {from}-{}/{}", to - 1, content.len()),
                )
                .header("content-length", whole.len());
            let then = (sent < whole.len()).then_some(likeness.hangs);
            (response, Bytes::copy_from_slice(&whole[..sent]), then)
        } else {
            let response = response
                .status(302)
                .header("location", format!("{}/cdn/{}", self.endpoint, likeness.etag))
                .header("x-repo-commit", &likeness.commit)
                .header("x-linked-etag", format!("\"{}\"", likeness.etag));
            (response, Bytes::new(), None)
        };
        let frames = stream::unfold(Some((body, then)), |state| async move {
            // Lets the connection write what it has.
            tokio::task::yield_now().await;
            let (body, then) = state?;
            if !body.is_empty() {
                return Some((Ok(Frame::data(body)), Some((Bytes::new(), then))));
            }
            match then? {
                true => std::future::pending().await,
                // The announced bytes do not arrive.
                false => Some((Err(io::Error::other("cut")), None)),
            }
        });
        response.body(StreamBody::new(frames)).unwrap()
    }
}
