//! Downloads files from the Hugging Face hub into the cache that all of its clients share, and
//! verifies them.
//!
//! `hf-hub` transfers, resumes and locks. This module adds what it lacks: a time-out, a checksum,
//! and errors that say what to do. A file in the cache is not looked up again, so the first start
//! decides which commit a branch means.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, io, thread};

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};

use super::name::HubFile;

const ENDPOINT: &str = "https://huggingface.co";
/// One gigabyte at one buffer per minute would take days: a slower connection counts as stalled.
const PATIENCE: Duration = Duration::from_secs(60);
/// Retries of one interrupted transfer, each from the last byte that arrived.
const RETRIES: usize = 4;

/// An error with a message that names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct HubError {
    code: &'static str,
    message: String,
}

impl HubError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message }
    }

    /// Returns a stable code for programs: `hub_` and `unreachable`, `offline`, `missing`, `login`,
    /// `denied`, `refused`, `broken`, `stalled`, `checksum`, `no_checksum`, `locked`, `cache`,
    /// `no_home` or `client`.
    pub fn code(&self) -> &'static str {
        self.code
    }
}

impl From<io::Error> for HubError {
    fn from(error: io::Error) -> Self {
        let message = format!("the cache of model files cannot be read or written: {error}");
        Self::new("hub_cache", message)
    }
}

/// A hub, and the folder that caches its files.
#[derive(Clone)]
pub struct Hub {
    endpoint: String,
    cache: PathBuf,
    token: Option<String>,
    offline: bool,
    patience: Duration,
}

impl Hub {
    /// Creates a client of the hub at `endpoint` that caches files in `cache`. Without a token, it
    /// uses the one in the file `token` beside `cache`, where the hub's own client saves it.
    pub fn new(endpoint: &str, cache: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache: cache.into(),
            token: None,
            offline: false,
            patience: PATIENCE,
        }
    }

    /// Creates a client from the variables of the hub's own clients: `HF_ENDPOINT`, `HF_HUB_CACHE`,
    /// `HF_HOME`, `HF_TOKEN` and `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    ///
    /// `hub_no_home` if neither a variable nor a home folder locates the cache.
    pub fn from_environment() -> Result<Self, HubError> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let home = || {
            let home = env::home_dir().filter(|home| !home.as_os_str().is_empty())?;
            Some(home.join(".cache/huggingface"))
        };
        let in_home = || Some(variable("HF_HOME").map(PathBuf::from).or_else(home)?.join("hub"));
        let cache = variable("HF_HUB_CACHE").map(PathBuf::from).or_else(in_home);
        let no_home = "the cache of model files needs a home folder; set HF_HOME";
        let cache = cache.ok_or_else(|| HubError::new("hub_no_home", no_home))?;
        let mut hub = Self::new(variable("HF_ENDPOINT").as_deref().unwrap_or(ENDPOINT), cache);
        hub.token = variable("HF_TOKEN").map(|token| token.trim().to_owned());
        hub.offline =
            variable("HF_HUB_OFFLINE").is_some_and(|value| !matches!(value.trim(), "0" | "false" | "no"));
        Ok(hub)
    }

    /// Sets the token that authenticates requests.
    #[must_use]
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Uses only files that are in the cache.
    #[must_use]
    pub fn offline(mut self) -> Self {
        self.offline = true;
        self
    }

    /// Sets the longest time without a byte, before and during a transfer. Default: 60 seconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Returns the path of a file in the cache; for a model in parts, the path of the first, with
    /// the others in the same folder. Downloads files that are missing, with a progress bar on a
    /// terminal, and verifies each file once.
    ///
    /// # Cancel safety
    ///
    /// Downloaded bytes are kept. A running transfer continues on its thread until the process
    /// ends.
    ///
    /// # Errors
    ///
    /// [`HubError`].
    pub async fn fetch(&self, file: &HubFile) -> Result<PathBuf, HubError> {
        let first = self.fetch_part(file, file.file()).await?;
        for part in file.files().iter().skip(1) {
            self.fetch_part(file, part).await?;
        }
        Ok(first)
    }

    async fn fetch_part(&self, file: &HubFile, part: &str) -> Result<PathBuf, HubError> {
        let (progress, mut bytes) = watch::channel(());
        let (done, mut result) = oneshot::channel();
        let job = Job(self.clone(), file.clone(), part.to_owned());
        // Not a task: the runtime would wait for a stalled transfer before the process can end.
        thread::Builder::new().name("hub".into()).spawn(move || {
            let _ = done.send(job.run(progress));
        })?;
        let mut transferring = true;
        loop {
            tokio::select! {
                biased;
                result = &mut result => return result.unwrap_or_else(|_| {
                    Err(HubError::new("hub_client", format!("the client of the hub panicked on {file}")))
                }),
                // Without a sender the transfer has ended; the checksum takes as long as it takes.
                changed = bytes.changed(), if transferring => transferring = changed.is_ok(),
                () = tokio::time::sleep(self.patience), if transferring => return Err(HubError::new(
                    "hub_stalled",
                    format!("the download of {file} stalled for {:?}; start again to resume it", self.patience),
                )),
            }
        }
    }
}

impl std::fmt::Debug for Hub {
    /// Omits the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// One file to locate, on a thread; the path names one part of a model in parts.
struct Job(Hub, HubFile, String);

impl Job {
    fn run(&self, progress: watch::Sender<()>) -> Result<PathBuf, HubError> {
        let Self(hub, file, part) = self;
        let (repo, revision) = (file.repo().to_owned(), file.revision().to_owned());
        let repo = Repo::with_revision(repo, RepoType::Model, revision);
        let cache = Cache::new(hub.cache.clone());
        let cached = cache.repo(repo.clone());
        if let Some(path) = cached.get(part) {
            drop(progress);
            return self.verify(path);
        }
        if hub.offline {
            let cache = hub.cache.display();
            let remedy = "unset it, or name the path of a file";
            let message = format!("{file} is not in {cache}, and HF_HUB_OFFLINE is set; {remedy}");
            return Err(HubError::new("hub_offline", message));
        }
        fs::create_dir_all(&hub.cache)?;
        let token = hub.token.clone().or_else(|| cache.token());
        let api = ApiBuilder::from_cache(cache)
            .with_endpoint(hub.endpoint.clone())
            .with_retries(RETRIES)
            .with_token(token)
            .with_user_agent("ragwire", env!("CARGO_PKG_VERSION"))
            .build()
            .map_err(|error| self.error(&error, false))?;
        let remote = api.repo(repo);
        let metadata = api.metadata(&remote.url(part));
        let metadata = metadata.map_err(|error| self.error(&error, false))?;
        // hf-hub makes both values parts of paths.
        let commit = metadata.commit_hash();
        if !is_sha256(metadata.etag()) {
            return Err(self.no_checksum());
        }
        if commit.len() != 40 || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let message = format!("{} named an invalid commit for {file}: {commit:?}", hub.endpoint);
            return Err(HubError::new("hub_client", message));
        }
        let pointer = cached.pointer_path(commit).join(part);
        if pointer.exists() {
            // Downloaded before, under another name of the same commit.
            drop(progress);
            cached.create_ref(commit)?;
            return self.verify(pointer);
        }
        // hf-hub cannot replace a link whose target is missing. The record belongs to that target.
        let verified = cached.blob_path(metadata.etag()).with_extension("verified");
        let _ = (fs::remove_file(&pointer), fs::remove_file(verified));
        tracing::info!(%file, "downloading a model file");
        let path = remote.download_with_progress(part, Meter(ProgressBar::new(0), progress));
        self.verify(path.map_err(|error| self.error(&error, true))?)
    }

    /// Compares a file with its checksum, once: the cache names a file by the checksum that was
    /// published. An empty file beside it, with the suffix `.verified`, records the success.
    fn verify(&self, path: PathBuf) -> Result<PathBuf, HubError> {
        let blob = path.canonicalize()?;
        let name = blob.file_name().and_then(|name| name.to_str());
        let published = name
            .filter(|name| is_sha256(name))
            .ok_or_else(|| self.no_checksum())?;
        let verified = blob.with_extension("verified");
        if verified.exists() {
            return Ok(path);
        }
        let found = sha256(&blob)?;
        if found != published {
            // Both the link and its target: the next start would use them.
            let _ = (fs::remove_file(&path), fs::remove_file(&blob));
            let remedy = "it was deleted: start again to download it";
            let Self(_, file, _) = self;
            let message = format!("{file} has SHA-256 {found}, but {published} was published; {remedy}");
            return Err(HubError::new("hub_checksum", message));
        }
        fs::write(verified, "")?;
        Ok(path)
    }

    fn no_checksum(&self) -> HubError {
        let Self(Hub { endpoint, .. }, file, _) = self;
        let message =
            format!("{endpoint} publishes no SHA-256 for {file}; download it yourself and name its path");
        HubError::new("hub_no_checksum", message)
    }

    /// Returns the message for an error of hf-hub. `started`: the hub had answered before.
    fn error(&self, error: &ApiError, started: bool) -> HubError {
        let Self(Hub { endpoint, cache, .. }, file, _) = self;
        let (repo, revision, path) = (file.repo(), file.revision(), file.file());
        let status = match error {
            ApiError::TooManyRetries(last) => return self.error(last, started),
            ApiError::RequestError(request) => match **request {
                ureq::Error::StatusCode(status) => status,
                _ => 0,
            },
            _ => 0,
        };
        let (code, what, remedy) = match (status, error) {
            (401, _) => (
                "hub_login",
                format!("{endpoint} requires a login for {file}"),
                format!("{repo} is private, gated or does not exist; set HF_TOKEN, or run `hf auth login`"),
            ),
            (403, _) => (
                "hub_denied",
                format!("{endpoint} denies access to {file}"),
                format!("you may have to accept its terms at {endpoint}/{repo}"),
            ),
            (404, _) => (
                "hub_missing",
                format!("{file} does not exist"),
                format!("see {endpoint}/{repo}/tree/{revision}"),
            ),
            (1.., _) => (
                "hub_refused",
                format!("{endpoint} answered {status} for {file}"),
                "try again later".into(),
            ),
            (0, ApiError::LockAcquisition(_)) => (
                "hub_locked",
                format!("another process is downloading {file}"),
                "wait for it, and start again".into(),
            ),
            (0, error) if started => (
                "hub_broken",
                format!("the download of {file} was interrupted ({error})"),
                "start again to resume it".into(),
            ),
            (0, error) => (
                "hub_unreachable",
                format!(
                    "{endpoint} cannot be reached ({error}), and {file} is not in {}",
                    cache.display()
                ),
                format!(
                    "download it where there is a network (`hf download {repo} {path}`) and name its path"
                ),
            ),
        };
        HubError::new(code, format!("{what}; {remedy}"))
    }
}

/// The progress bar of hf-hub, and a notice of each piece that arrives.
struct Meter(ProgressBar, watch::Sender<()>);

impl Progress for Meter {
    /// Also runs before each retry, which then adds the bytes that are there.
    fn init(&mut self, size: usize, name: &str) {
        self.0.init(size, name);
        self.0.set_position(0);
        self.1.send_replace(());
    }

    fn update(&mut self, size: usize) {
        Progress::update(&mut self.0, size);
        self.1.send_replace(());
    }

    fn finish(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Whether a text is a SHA-256 as the hub writes it.
fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the SHA-256 of a file; a file of several gigabytes takes seconds.
fn sha256(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(
        &mut io::BufReader::with_capacity(1 << 20, fs::File::open(path)?),
        &mut hash,
    )?;
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
