//! One request to a server, the head of its response, and its body within bounds. It knows neither
//! prompts nor vectors.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, Uri};
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::HttpBody;
use super::error::{UpstreamError, Wait};
use super::error_body::UpstreamErrorBody;
use super::http_client::HttpClient;
use super::options::UpstreamOptions;
use super::retry::{Retry, Trouble, retry_after};

/// Number of bytes of an error's body that are read: the reason is in its first line.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// How long the body of an error may take: the status is already known.
const ERROR_BODY: Duration = Duration::from_secs(5);

/// The client of a server.
#[derive(Debug)]
pub(super) struct Client {
    http: HttpClient,
    authorization: Option<HeaderValue>,
    pub(super) options: UpstreamOptions,
}

impl Client {
    pub(super) fn new(options: UpstreamOptions) -> Result<Self, UpstreamError> {
        let http = HttpClient::with_roots(options.timeouts.connect, options.roots.clone())?;
        Ok(Self {
            http,
            authorization: options.key.as_ref().map(|key| key.header()).transpose()?,
            options,
        })
    }

    /// Posts JSON and returns a response with a success status. Redirects are errors, because the
    /// user did not configure the address behind them.
    pub(super) async fn post(
        &self,
        uri: Uri,
        accept: &'static str,
        body: Bytes,
        deadline: Deadline,
    ) -> Result<Response<HttpBody>, Trouble> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.send(request, deadline).await
    }

    /// Gets a JSON body within the limits, in one attempt.
    pub(super) async fn get(&self, uri: Uri) -> Result<Bytes, UpstreamError> {
        let total = Deadline::new(self.options.timeouts.total, Wait::Total);
        let first = Deadline::new(self.options.timeouts.first, Wait::First).min(total);
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = uri;
        let accept = HeaderValue::from_static("application/json");
        request.headers_mut().insert(ACCEPT, accept);
        let response = self.send(request, first).await.map_err(|trouble| trouble.error)?;
        self.whole(&mut response.into_body(), total).await
    }

    async fn send(
        &self,
        mut request: Request<Bytes>,
        deadline: Deadline,
    ) -> Result<Response<HttpBody>, Trouble> {
        let headers = request.headers_mut();
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let response = deadline.wait(self.http.send(request)).await??;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        // No encoding was requested, so the body cannot be decoded.
        let encoded = |value: &HeaderValue| !value.is_empty() && value != "identity";
        if response.headers().get(CONTENT_ENCODING).is_some_and(encoded) {
            return Err(UpstreamError::Unreadable("it is compressed, but no encoding was requested").into());
        }
        Ok(response)
    }

    /// Reads the error of a response with an error status.
    async fn refusal(&self, response: Response<HttpBody>) -> Trouble {
        let status = response.status();
        let retry_after = retry_after(response.headers());
        let body = if status.is_client_error() || status.is_server_error() {
            let mut body = response.into_body();
            let mut kept = BytesMut::new();
            // If reading fails, the status says enough.
            let _ = timeout(ERROR_BODY, async {
                while let Ok(Some(data)) = body.data().await {
                    kept.extend_from_slice(&data);
                    if kept.len() >= MAX_ERROR_BYTES {
                        break;
                    }
                }
            })
            .await;
            kept.truncate(MAX_ERROR_BYTES);
            UpstreamErrorBody::read(&kept, self.options.key.as_ref())
                .with_message(self.options.error_messages)
        } else {
            UpstreamErrorBody::default()
        };
        Trouble {
            error: body.refusal(status.as_u16()),
            retry_after,
        }
    }

    /// Posts JSON and reads a JSON body within the limits, with all allowed attempts.
    pub(super) async fn exchange(
        &self,
        uri: &Uri,
        body: &Bytes,
        retry: Retry,
    ) -> Result<Bytes, UpstreamError> {
        let times = &self.options.timeouts;
        let total = Deadline::new(times.total, Wait::Total);
        let mut attempt = 0;
        loop {
            let trouble = match self.exchange_once(uri.clone(), body.clone(), total).await {
                Ok(whole) => return Ok(whole),
                Err(trouble) => trouble,
            };
            let Some(pause) = retry.pause(attempt, &trouble) else {
                return Err(trouble.error);
            };
            tracing::debug!(error = %trouble.error, ?pause, "retrying the model server");
            total.wait(tokio::time::sleep(pause)).await?;
            attempt += 1;
        }
    }

    async fn exchange_once(&self, uri: Uri, body: Bytes, total: Deadline) -> Result<Bytes, Trouble> {
        let first = Deadline::new(self.options.timeouts.first, Wait::First).min(total);
        let response = self.post(uri, "application/json", body, first).await?;
        Ok(self.whole(&mut response.into_body(), total).await?)
    }

    /// Reads a body that comes in one piece.
    pub(super) async fn whole(&self, body: &mut HttpBody, total: Deadline) -> Result<Bytes, UpstreamError> {
        let limit = self.options.limits.body;
        let mut whole = BytesMut::new();
        while let Some(data) = self.data(body, self.idle().min(total)).await? {
            if whole.len() + data.len() > limit {
                return Err(UpstreamError::TooLarge {
                    what: "the body of the response",
                    limit,
                });
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// The deadline for the next bytes.
    pub(super) fn idle(&self) -> Deadline {
        Deadline::new(self.options.timeouts.idle, Wait::Idle)
    }

    /// Reads the next bytes of a body; `None` at its end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn data(
        &self,
        body: &mut HttpBody,
        deadline: Deadline,
    ) -> Result<Option<Bytes>, UpstreamError> {
        deadline.wait(body.data()).await?
    }
}

/// A point in time until which something is awaited, and how a timeout is reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    wait: Wait,
    after: Duration,
}

impl Deadline {
    /// A deadline in `after` from now.
    pub(super) fn new(after: Duration, wait: Wait) -> Self {
        Self {
            // A duration that does not fit means no deadline.
            at: Instant::now()
                .checked_add(after)
                .unwrap_or_else(|| Instant::now() + FAR),
            wait,
            after,
        }
    }

    /// The earlier of two deadlines.
    pub(super) fn min(self, other: Self) -> Self {
        if other.at < self.at { other } else { self }
    }

    pub(super) async fn wait<T>(self, work: impl Future<Output = T>) -> Result<T, UpstreamError> {
        timeout_at(self.at, work)
            .await
            .map_err(|_| UpstreamError::Timeout {
                wait: self.wait,
                after: self.after,
            })
    }
}

/// Ten years.
const FAR: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
