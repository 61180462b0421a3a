//! Threads of LangGraph's server, one for each turn: a run that ends at an interrupt continues in the
//! run after it, and nothing is left behind.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, Uri};
use ragwire::turn::TurnId;
use ragwire_rag::models::upstream::HttpClient;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// The end of the address of runs.
const RUNS: &str = "/runs/stream";
/// The path segment before the ID of a thread.
const THREADS: &str = "/threads/";
/// How long a thread may take to be deleted.
const DELETE: Duration = Duration::from_secs(10);

/// Returns the addresses of the runs of a turn's own thread and of that thread. `None` if the
/// address of the orchestrator names a thread, or is not that of LangGraph's runs: then it is used as
/// it is.
pub(super) fn langgraph_thread(base: &Uri, turn: TurnId) -> Option<(Uri, Uri)> {
    let path = base.path().strip_suffix(RUNS)?;
    if path.contains(THREADS) {
        return None;
    }
    let thread = format!("{path}{THREADS}{}", uuid(turn));
    let runs = match base.query() {
        Some(query) => format!("{thread}{RUNS}?{query}"),
        None => format!("{thread}{RUNS}"),
    };
    let at = |path: String| {
        let mut parts = base.clone().into_parts();
        parts.path_and_query = Some(path.parse().ok()?);
        Uri::from_parts(parts).ok()
    };
    Some((at(runs)?, at(thread)?))
}

/// Returns the turn's ID in the form of a random UUID, which the IDs of threads have.
fn uuid(turn: TurnId) -> String {
    let id = turn.to_string();
    let part = |range| id.get(range).unwrap_or_default();
    // The version, and the variant.
    format!(
        "{}-{}-4{}-8{}-{}",
        part(0..8),
        part(8..12),
        part(13..16),
        part(17..20),
        part(20..32)
    )
}

/// Returns the request that deletes a thread, with the headers of its runs.
pub(super) fn delete(thread: Uri, headers: &HeaderMap) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::DELETE;
    *request.uri_mut() = thread;
    *request.headers_mut() = headers.clone();
    request.headers_mut().remove(CONTENT_TYPE);
    request
}

/// The deletions that are under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Threads(Arc<Mutex<JoinSet<()>>>);

impl Threads {
    /// Begins a thread, which is deleted by this request when the result is dropped.
    pub(super) fn begin(&self, client: HttpClient, request: Request<Bytes>) -> Thread {
        Thread {
            threads: self.clone(),
            deletion: Some((client, request)),
        }
    }
}

/// The thread of one turn.
pub(super) struct Thread {
    threads: Threads,
    deletion: Option<(HttpClient, Request<Bytes>)>,
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl Drop for Thread {
    /// Deletes it in the background: the turn has ended, or is stopped.
    fn drop(&mut self) {
        let (Some((client, request)), Ok(runtime)) = (self.deletion.take(), Handle::try_current()) else {
            return;
        };
        let mut tasks = self.threads.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        let deletion = async move {
            let deleted = timeout(DELETE, client.send(request)).await;
            if !matches!(&deleted, Ok(Ok(response)) if response.status().is_success()) {
                tracing::debug!("a thread was not deleted");
            }
        };
        tasks.spawn_on(deletion, &runtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_a_thread_of_its_own() {
        let turn = TurnId::parse("0123456789abcdef0123456789abcdef").unwrap();
        let thread = "/threads/01234567-89ab-4def-8123-456789abcdef";
        for (base, expected) in [
            ("http://a:1/runs/stream", Some(("", ""))),
            ("http://a:1/api/runs/stream?x=1", Some(("/api", "?x=1"))),
            ("http://a:1/threads/mine/runs/stream", None),
            ("http://a:1/ask", None),
        ] {
            let uris = langgraph_thread(&base.parse().unwrap(), turn);
            let uris = uris.map(|(runs, thread)| (runs.to_string(), thread.to_string()));
            let expected = expected.map(|(prefix, query)| {
                let thread = format!("http://a:1{prefix}{thread}");
                (format!("{thread}/runs/stream{query}"), thread)
            });
            assert_eq!(uris, expected, "{base}");
        }
    }
}
