//! What every response of the server has, whichever route answers: its request's ID, the time until
//! it began, an entry in the log and in the metrics.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, StatusCode};
use hyper::body::Incoming;
use ragwire_endpoints::{Refusal, RequestId};
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::Instrument;

use crate::connections::OpenRequest;
use crate::metrics::Metrics;

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The routes of a server, and where their responses are counted.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) router: Router,
    /// `None` while the server starts.
    pub(crate) metrics: Option<Arc<Metrics>>,
}

impl Routes {
    /// Answers a request. A panic of a handler is a 500 response; other requests of the connection
    /// are not affected.
    pub(crate) async fn respond(
        self,
        request: hyper::Request<Incoming>,
        open: OpenRequest,
    ) -> Result<Response, Infallible> {
        let began = Instant::now();
        let id = RequestId::of(request.headers());
        let span = tracing::info_span!("request", id = id.as_str());
        let method = request.method().clone();
        let work = async {
            let handled = AssertUnwindSafe(self.router.oneshot(request))
                .catch_unwind()
                .await;
            let Ok(mut response) = handled.unwrap_or_else(|_| Ok(panicked()));
            let took_ms = began.elapsed().as_secs_f64() * 1e3;
            let status = response.status();
            tracing::debug!(%method, status = status.as_u16(), took_ms, "responded");
            if let Some(metrics) = &self.metrics {
                metrics.count_response(&method, status);
            }
            let headers = response.headers_mut();
            // Until the response began: of a stream, until its first event.
            if let Ok(timing) = HeaderValue::try_from(format!("app;dur={took_ms:.1}")) {
                headers.insert(SERVER_TIMING, timing);
            }
            if let Some(id) = id.header() {
                headers.insert(RequestId::HEADER, id);
            }
            response
        };
        let response = id.clone().scope(work).instrument(span).await;
        Ok(response.map(|body| open.held_by(body)))
    }
}

fn panicked() -> Response {
    let refusal = Refusal::temporary(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal",
        "The server failed. Please retry.",
    );
    refusal.into_response()
}
