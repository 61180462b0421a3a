//! Fetches files of the Hugging Face hub: once, into the cache that all of its clients share, and checked against the checksum that the hub names.
//!
//! A file that is in the cache is not looked up again: what a branch means is settled by the first start. The transfer is `hf-hub`'s; what that lacks
//! is here: a checksum, an end to silence, and words for whoever started the server.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hf_hub::api::sync::{ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use tokio::sync::{oneshot, watch};

use super::checksum;
use super::name::HubFile;
use super::progress::Shown;

/// Where the hub is, unless `HF_ENDPOINT` says otherwise.
const ENDPOINT: &str = "https://huggingface.co";
/// Longest silence of a download, and longest wait for its beginning: a line that is that slow would take a day for a gigabyte.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a download that broke is taken up again, within one start.
const RETRIES: usize = 4;
/// Length of a commit in hexadecimal digits.
const COMMIT_DIGITS: usize = 40;

/// Why a file is not there. Each says what can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// Nobody answers, and the file is not in the cache.
    #[error(
        "{endpoint} was not reached ({reason}), and {file} is not in {cache}; fetch it where there is a network (`hf download {} {}`) and name its path",
        file.repo(), file.file(), cache = cache.display()
    )]
    Unreachable {
        /// The hub.
        endpoint: String,
        /// The file.
        file: Box<HubFile>,
        /// Where it was looked for.
        cache: PathBuf,
        /// What happened.
        reason: String,
    },
    /// `HF_HUB_OFFLINE` forbids to look.
    #[error("{file} is not in {cache}, and HF_HUB_OFFLINE is set; unset it, or name the path of a file", cache = cache.display())]
    Offline {
        /// The file.
        file: Box<HubFile>,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// There is no such file.
    #[error("there is no {file} on {endpoint}; {endpoint}/{}/tree/{} lists what there is", file.repo(), file.revision())]
    Missing {
        /// The hub.
        endpoint: String,
        /// The file.
        file: Box<HubFile>,
    },
    /// The hub wants to know who asks.
    #[error(
        "{endpoint} wants a login for {file}: it is private or gated, or there is no such repository; set HF_TOKEN, or run `hf auth login`"
    )]
    Login {
        /// The hub.
        endpoint: String,
        /// The file.
        file: Box<HubFile>,
    },
    /// The hub knows who asks, and says no.
    #[error("{endpoint} refuses {file} to the account of the token; its terms may have to be accepted at {endpoint}/{}", file.repo())]
    Denied {
        /// The hub.
        endpoint: String,
        /// The file.
        file: Box<HubFile>,
    },
    /// Another status.
    #[error("{endpoint} answered {status} for {file}; try again later")]
    Refused {
        /// The hub.
        endpoint: String,
        /// The file.
        file: Box<HubFile>,
        /// The status.
        status: u16,
    },
    /// The download broke again and again.
    #[error("the download of {file} broke off ({reason}); the next start goes on where it was")]
    Broken {
        /// The file.
        file: Box<HubFile>,
        /// What happened.
        reason: String,
    },
    /// Nothing came.
    #[error("the download of {file} stood still for {after:?}; the next start goes on where it was")]
    Stalled {
        /// The file.
        file: Box<HubFile>,
        /// For how long.
        after: Duration,
    },
    /// What came is something else.
    #[error(
        "{file} has SHA-256 {found}, and {expected} was published; it was deleted, and the next start fetches it anew"
    )]
    Checksum {
        /// The file.
        file: Box<HubFile>,
        /// What the hub names.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The hub does not say what the file should be.
    #[error(
        "{endpoint} names no SHA-256 for {file}, so it cannot be checked; fetch it by hand and name its path"
    )]
    NoChecksum {
        /// The hub.
        endpoint: String,
        /// The file.
        file: Box<HubFile>,
    },
    /// Another process fetches it.
    #[error("another process fetches {file}; wait for it, and start again")]
    Locked {
        /// The file.
        file: Box<HubFile>,
    },
    /// The cache cannot be read or written.
    #[error("the cache of model files cannot be used: {0}")]
    Cache(#[source] io::Error),
    /// There is no place for a cache.
    #[error("there is no home folder for the cache of model files; set HF_HOME")]
    NoHome,
    /// The client of the hub gave up in a way of its own.
    #[error("the client of the hub failed on {file}")]
    Client {
        /// The file.
        file: Box<HubFile>,
    },
}

impl HubError {
    /// Stable machine word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "hub_unreachable",
            Self::Offline { .. } => "hub_offline",
            Self::Missing { .. } => "hub_missing",
            Self::Login { .. } => "hub_login",
            Self::Denied { .. } => "hub_denied",
            Self::Refused { .. } => "hub_refused",
            Self::Broken { .. } => "hub_broken",
            Self::Stalled { .. } => "hub_stalled",
            Self::Checksum { .. } => "hub_checksum",
            Self::NoChecksum { .. } => "hub_no_checksum",
            Self::Locked { .. } => "hub_locked",
            Self::Cache(_) => "hub_cache",
            Self::NoHome => "hub_no_home",
            Self::Client { .. } => "hub_client",
        }
    }
}

/// The hub, and the folder that its files are kept in.
#[derive(Clone)]
pub struct Hub {
    endpoint: String,
    cache: PathBuf,
    token: Option<String>,
    offline: bool,
    patience: Duration,
}

impl Hub {
    /// A hub at `endpoint`, with its files in `cache`. Without a token, the one in the file `token` beside `cache` is used, where the hub's own
    /// client leaves it.
    pub fn new(endpoint: &str, cache: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache: cache.into(),
            token: None,
            offline: false,
            patience: PATIENCE,
        }
    }

    /// As the hub's own clients are set: `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    ///
    /// [`HubError::NoHome`]
    pub fn from_environment() -> Result<Self, HubError> {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = || {
            let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty())?;
            Some(home.join(".cache").join("huggingface"))
        };
        let cache = said("HF_HUB_CACHE").map(PathBuf::from).or_else(|| {
            let home = said("HF_HOME").map(PathBuf::from).or_else(home)?;
            Some(home.join("hub"))
        });
        let endpoint = said("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let mut hub = Self::new(&endpoint, cache.ok_or(HubError::NoHome)?);
        hub.token = said("HF_TOKEN").map(|token| token.trim().to_owned());
        hub.offline =
            said("HF_HUB_OFFLINE").is_some_and(|value| !matches!(value.trim(), "0" | "false" | "no"));
        Ok(hub)
    }

    /// Sets who asks.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Takes only what is in the cache.
    #[must_use]
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// Sets the longest silence of a download.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The path of a file on this machine; of a model in parts, that of the first, with the others beside it. Files that are not there are fetched,
    /// which shows on stderr; those that were never checked are checked.
    ///
    /// # Cancel safety
    /// What was fetched stays; a transfer that runs goes on until the process ends.
    ///
    /// # Errors
    ///
    /// [`HubError`]
    pub async fn fetch(&self, file: &HubFile) -> Result<PathBuf, HubError> {
        let mut first = None;
        for name in file.files() {
            let path = self.fetch_one(file, &name).await?;
            first.get_or_insert(path);
        }
        first.ok_or_else(|| HubError::Client {
            file: Box::new(file.clone()),
        })
    }

    async fn fetch_one(&self, file: &HubFile, name: &str) -> Result<PathBuf, HubError> {
        let one = One {
            hub: self.clone(),
            file: Box::new(file.clone()),
            name: name.to_owned(),
        };
        if let Some(path) = one.cached() {
            return on_a_thread(file, move || one.check(path, None)).await?;
        }
        if self.offline {
            return Err(HubError::Offline {
                file: Box::new(file.clone()),
                cache: self.cache.clone(),
            });
        }
        // Bytes so far: the transfer has no time-outs of its own.
        let (progress, mut seen) = watch::channel(0);
        let mut work = std::pin::pin!(on_a_thread(file, move || one.download(progress)));
        let mut moves = true;
        loop {
            let still = tokio::time::sleep(self.patience);
            tokio::select! {
                biased;
                done = &mut work => return done?,
                // What is behind the last byte is a checksum, which takes as long as it takes.
                changed = seen.changed(), if moves => moves = changed.is_ok(),
                () = still, if moves => {
                    return Err(HubError::Stalled { file: Box::new(file.clone()), after: self.patience });
                }
            }
        }
    }
}

impl std::fmt::Debug for Hub {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// On a thread of its own that nobody waits for at the end of the process. A panic of the client is an error like any other.
async fn on_a_thread<T: Send + 'static>(
    file: &HubFile,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HubError> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name("hub".into())
        .spawn(move || {
            let _ = done.send(work());
        })
        .map_err(HubError::Cache)?;
    result.await.map_err(|_| HubError::Client {
        file: Box::new(file.clone()),
    })
}

/// One file to fetch.
struct One {
    hub: Hub,
    file: Box<HubFile>,
    /// Within the repository; of a model in parts, one of them.
    name: String,
}

impl One {
    fn repo(&self) -> Repo {
        Repo::with_revision(
            self.file.repo().to_owned(),
            RepoType::Model,
            self.file.revision().to_owned(),
        )
    }

    fn cached(&self) -> Option<PathBuf> {
        Cache::new(self.hub.cache.clone())
            .repo(self.repo())
            .get(&self.name)
    }

    /// Looks whether a file is what was published, once. Where the hub does not say it now, the cache does: it keeps files under their checksum.
    fn check(&self, path: PathBuf, published: Option<String>) -> Result<PathBuf, HubError> {
        let blob = path.canonicalize().map_err(HubError::Cache)?;
        let kept_as = || blob.file_name()?.to_str().map(ToOwned::to_owned);
        let expected = published
            .or_else(kept_as)
            .filter(|name| checksum::is_sha256(name));
        let Some(expected) = expected else {
            return Err(HubError::NoChecksum {
                endpoint: self.hub.endpoint.clone(),
                file: self.file.clone(),
            });
        };
        if checksum::is_remembered(&blob, &expected) {
            return Ok(path);
        }
        let found = checksum::of(&blob).map_err(HubError::Cache)?;
        if found != expected {
            checksum::forget(&blob);
            // The link and what it leads to: else it would be found again.
            for gone in [&path, &blob] {
                let _ = std::fs::remove_file(gone);
            }
            return Err(HubError::Checksum {
                file: self.file.clone(),
                expected,
                found,
            });
        }
        if let Err(error) = checksum::remember(&blob, &expected) {
            tracing::debug!(%error, "a checksum is not remembered");
        }
        Ok(path)
    }

    fn download(&self, progress: watch::Sender<u64>) -> Result<PathBuf, HubError> {
        let cache = Cache::new(self.hub.cache.clone());
        let mut builder = ApiBuilder::from_cache(cache.clone())
            .with_endpoint(self.hub.endpoint.clone())
            .with_retries(RETRIES)
            .with_user_agent("ragwire", env!("CARGO_PKG_VERSION"));
        if let Some(token) = &self.hub.token {
            builder = builder.with_token(Some(token.clone()));
        }
        let api = builder.build().map_err(|error| self.told(&error, false))?;
        let repo = api.repo(self.repo());
        let metadata = api
            .metadata(&repo.url(&self.name))
            .map_err(|error| self.told(&error, false))?;
        // Both become parts of paths.
        let sha256 = metadata.etag().to_owned();
        if !checksum::is_sha256(&sha256) {
            return Err(HubError::NoChecksum {
                endpoint: self.hub.endpoint.clone(),
                file: self.file.clone(),
            });
        }
        let commit = metadata.commit_hash();
        if commit.len() != COMMIT_DIGITS || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(HubError::Client {
                file: self.file.clone(),
            });
        }
        let kept = cache.repo(self.repo());
        let pointer = kept.pointer_path(commit).join(&self.name);
        if pointer.exists() {
            // Fetched before under another name of the same commit.
            drop(progress);
            kept.create_ref(commit).map_err(HubError::Cache)?;
            return self.check(pointer, Some(sha256));
        }
        // A link whose file has gone would be in the way.
        let _ = std::fs::remove_file(&pointer);
        let part = kept.blob_path(&sha256).with_extension("part");
        let path = self.transfer(&repo, &part, &progress)?;
        // Nothing moves any more, and that is no silence.
        drop(progress);
        self.check(path, Some(sha256))
    }

    fn transfer(
        &self,
        repo: &ApiRepo,
        part: &Path,
        progress: &watch::Sender<u64>,
    ) -> Result<PathBuf, HubError> {
        let shown = || Shown::new(&self.name, progress.clone());
        match repo.download_with_progress(&self.name, shown()) {
            // What an attempt before has left is no beginning of this file.
            Err(ApiError::InvalidResume) => {
                std::fs::remove_file(part).map_err(HubError::Cache)?;
                repo.download_with_progress(&self.name, shown())
            }
            done => done,
        }
        .map_err(|error| self.told(&error, true))
    }

    /// An error of the client in words. `begun`: the hub had answered before.
    fn told(&self, error: &ApiError, begun: bool) -> HubError {
        let (endpoint, file) = (self.hub.endpoint.clone(), self.file.clone());
        let broken = |reason: String| {
            if begun {
                HubError::Broken {
                    file: self.file.clone(),
                    reason,
                }
            } else {
                HubError::Unreachable {
                    endpoint: self.hub.endpoint.clone(),
                    file: self.file.clone(),
                    cache: self.hub.cache.clone(),
                    reason,
                }
            }
        };
        match error {
            ApiError::TooManyRetries(last) => self.told(last, begun),
            ApiError::LockAcquisition(_) => HubError::Locked { file },
            ApiError::RequestError(request) => match **request {
                ureq::Error::StatusCode(status) => match status {
                    401 => HubError::Login { endpoint, file },
                    403 => HubError::Denied { endpoint, file },
                    404 => HubError::Missing { endpoint, file },
                    _ => HubError::Refused {
                        endpoint,
                        file,
                        status,
                    },
                },
                ref other => broken(other.to_string()),
            },
            ApiError::IoError(error) if is_of_the_disk(error) => {
                HubError::Cache(io::Error::new(error.kind(), error.to_string()))
            }
            ApiError::IoError(error) => broken(error.to_string()),
            ApiError::MissingHeader(_) | ApiError::InvalidHeader(_) => {
                broken("it does not answer as a hub".into())
            }
            other => broken(other.to_string()),
        }
    }
}

/// The client copies from a socket to a file, and does not say which of them failed.
fn is_of_the_disk(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    matches!(
        error.kind(),
        AlreadyExists
            | IsADirectory
            | NotADirectory
            | NotFound
            | PermissionDenied
            | QuotaExceeded
            | ReadOnlyFilesystem
            | StorageFull
    )
}
