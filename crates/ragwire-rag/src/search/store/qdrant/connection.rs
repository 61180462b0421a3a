//! The connections to a Qdrant server: the address, the key, and when a request is sent again.
//!
//! This module does not know any request.

use std::time::Duration;

use qdrant_client::{Qdrant, QdrantError};

use super::failed;
use super::failure::Failure;
use crate::search::store::StoreError;
use crate::trace::TraceContext;

/// How often a request is sent if the server is unreachable or the connection is lost. (In
/// addition, the client itself repeats a request at once whose connection broke.)
const ATTEMPTS: u32 = 3;
/// The pause before the first retry; each further pause is four times as long.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause if the server asks for one.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The time limit of one request unless the options set it. A busy server takes seconds for a batch
/// of chunks with token vectors.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of one server that repeats what may be repeated. Dropping the last clone closes the
/// connections.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Qdrant,
    timeout: Duration,
}

impl Connection {
    /// Connects with the first request. It neither blocks nor waits.
    ///
    /// # Errors
    ///
    /// `store_failed` for an invalid address, for an address with a password (which error messages
    /// would reveal), and for a key that is not a valid header value.
    pub(crate) fn new(url: &str, api_key: Option<String>, timeout: Duration) -> Result<Self, StoreError> {
        let address = url.split_once("://");
        let host = match address {
            Some(("http" | "https", rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
            _ => {
                return Err(failed(
                    "the address of Qdrant must begin with http:// or https://",
                ));
            }
        };
        if host.contains('@') {
            return Err(failed(
                "the address of Qdrant contains a user; pass the key as an option",
            ));
        }
        let printable = |key: &String| key.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        if !api_key.as_ref().is_none_or(printable) {
            return Err(failed("the key for Qdrant is not a valid header value"));
        }
        let client = Qdrant::from_url(url)
            .skip_compatibility_check()
            .api_key(api_key)
            .timeout(timeout)
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .build()
            .map_err(|_| failed("the address of Qdrant is invalid"))?;
        Ok(Self { client, timeout })
    }

    /// Returns the client whose requests carry the trace of this task, if it has one.
    pub(crate) fn traced(&self) -> Qdrant {
        let trace = TraceContext::current();
        let headers = trace.iter().flat_map(TraceContext::headers);
        headers.fold(self.client.clone(), |client, (name, value)| {
            client.with_header(name, value)
        })
    }

    /// Sends a request, and repeats it if that may help.
    pub(crate) async fn send<T, F>(&self, request: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, QdrantError>>,
    {
        let mut pause = PAUSE;
        for attempt in 1.. {
            // The client's own time limit applies to each attempt separately, and does not include
            // connecting.
            let answer = tokio::time::timeout(self.timeout, request()).await;
            let failure = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => Failure::of(error),
                Err(_) => Failure::timed_out(),
            };
            if !failure.retry || attempt >= ATTEMPTS {
                return Err(failure);
            }
            tokio::time::sleep(failure.pause.unwrap_or(pause).min(MAX_PAUSE)).await;
            pause *= 4;
        }
        Err(Failure::timed_out())
    }
}
