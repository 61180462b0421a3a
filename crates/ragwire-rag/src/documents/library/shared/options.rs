//! Where a shared library is, and its times.

use std::time::Duration;

use crate::search::store::qdrant::TIMEOUT;

/// How often changes are looked for.
const POLL: Duration = Duration::from_millis(250);
/// How long a claim lasts without a renewal.
const LEASE: Duration = Duration::from_secs(15);
/// Passages without a head are deleted after this long.
const SWEEP_AFTER: Duration = Duration::from_secs(600);

/// The server and the collection of a shared library.
#[derive(Clone)]
pub struct SharedLibraryOptions {
    pub(super) url: String,
    pub(super) collection: String,
    pub(super) api_key: Option<String>,
    pub(super) timeout: Duration,
    pub(super) poll: Duration,
    pub(super) lease: Duration,
    pub(super) sweep_after: Duration,
}

impl std::fmt::Debug for SharedLibraryOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedLibraryOptions")
            .field("url", &self.url)
            .field("collection", &self.collection)
            .field("api_key", &self.api_key.as_ref().map(|_| "…"))
            .finish_non_exhaustive()
    }
}

impl SharedLibraryOptions {
    /// The collection of a library on the server with this gRPC address, for example
    /// `http://127.0.0.1:6334`. It needs Qdrant 1.16 or newer. The collection is created if it does not
    /// exist, and must have no other use.
    pub fn new(url: impl Into<String>, collection: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            collection: collection.into(),
            api_key: None,
            timeout: TIMEOUT,
            poll: POLL,
            lease: LEASE,
            sweep_after: SWEEP_AFTER,
        }
    }

    /// Sets the key that the server requires. It never appears in messages or logs of this crate; send
    /// it only over `https`.
    #[must_use]
    pub fn api_key(mut self, key: Option<String>) -> Self {
        self.api_key = key;
        self
    }

    /// Sets the time limit of one request. Default: 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often changes of other hosts are looked for. Default: 250 milliseconds.
    #[must_use]
    pub fn poll(mut self, every: Duration) -> Self {
        self.poll = every;
        self
    }

    /// Sets after which time the work of a dead host is taken over. Default: 15 seconds.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets after which time passages of unfinished uploads are deleted. An upload that takes more than
    /// half of it fails. The same on all hosts. Default: 10 minutes.
    #[must_use]
    pub fn sweep_after(mut self, grace: Duration) -> Self {
        self.sweep_after = grace;
        self
    }
}
