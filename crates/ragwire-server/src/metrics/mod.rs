//! The figures of a server, in the format of Prometheus: `GET /metrics`.
//!
//! | file | contents |
//! |---|---|
//! | `turns` | what each finished turn adds |
//! | `state` | what is read when it is asked for |
//! | `process` | the process, as its operating system counts |
//!
//! Every label is bounded: by the wires, the codes that this program knows, the HTTP methods and
//! statuses, and the first 16 models (`turns::MAX_MODELS`). `docs/metrics.md` lists all metrics; a test
//! compares it with what a server reports.

mod process;
mod state;
mod turns;

use std::fmt;
use std::sync::PoisonError;

use http::{Method, StatusCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use ragwire::turn::{FinishedTurn, TurnObserver};

use crate::app::App;
use process::Process;
use state::State;
use turns::Turns;

/// The media type of the figures.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The value of a label that does not apply.
const NONE: &str = "none";
/// The value of a label for all that is not known.
const OTHER: &str = "other";

/// Labels with names that this program chooses.
type Labels<const N: usize> = [(&'static str, String); N];

/// The metrics of one server.
pub struct Metrics {
    registry: Registry,
    turns: Turns,
    state: State,
    process: Process,
    requests: Family<Labels<2>, Counter>,
    /// One at a time sets the figures of the state and writes all of them.
    reporting: std::sync::Mutex<()>,
}

impl Metrics {
    /// Creates the metrics of a server that has just started.
    #[expect(
        clippy::new_without_default,
        reason = "a server creates them once, on purpose"
    )]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let process = Process::register(&mut registry);
        let own = registry.sub_registry_with_prefix("ragwire");
        let (turns, state) = (Turns::register(own), State::register(own));
        let requests = Family::default();
        own.register(
            "http_requests",
            "Responses that began, by method and status",
            Family::clone(&requests),
        );
        Self {
            turns,
            state,
            process,
            requests,
            registry,
            reporting: std::sync::Mutex::default(),
        }
    }

    /// Counts a response.
    pub fn count_response(&self, method: &Method, status: StatusCode) {
        let known = [
            Method::GET,
            Method::POST,
            Method::PATCH,
            Method::DELETE,
            Method::HEAD,
            Method::OPTIONS,
        ];
        let method = if known.contains(method) {
            method.as_str()
        } else {
            OTHER
        };
        let labels = [
            ("method", method.to_owned()),
            ("status", status.as_str().to_owned()),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// Sets the number of stored sessions.
    pub(crate) fn set_sessions(&self, sessions: usize) {
        self.state.sessions.set(gauge(sessions));
    }

    /// Returns all figures as text.
    pub async fn report(&self, app: &App) -> String {
        let is_disk_full = app.is_disk_full().await;
        let _reporting = self.reporting.lock().unwrap_or_else(PoisonError::into_inner);
        self.state.read(app, is_disk_full);
        self.process.read();
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl TurnObserver for Metrics {
    fn finished(&self, turn: &FinishedTurn<'_>) {
        self.turns.add(turn);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Returns a number as the value of a gauge.
fn gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
