//! Downloads files from the Hugging Face hub into the cache of all its clients, and verifies them.
//!
//! `hf-hub` transfers, resumes and locks. This module adds a time-out, a checksum, and errors that
//! say what to do. A file in the cache is not looked up again, so the first start decides which
//! commit a branch means.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs, io, thread};

use hf_hub::api::Progress;
use hf_hub::api::sync::{ApiBuilder, ApiError};
use hf_hub::{Cache, Repo, RepoType};
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use ureq::Error::StatusCode;

use super::name::HubFile;
use crate::settings::engines::Secret;

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
    fn new(code: &'static str, message: String) -> Self {
        Self { code, message }
    }

    /// Returns a stable code for programs: `hub_` and `unreachable`, `offline`, `missing`, `login`,
    /// `denied`, `refused`, `broken`, `stalled`, `checksum`, `no_checksum`, `cache` or `client`.
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
#[derive(Clone, Debug)]
pub struct Hub {
    /// The URL of the hub.
    pub endpoint: String,
    /// The folder that caches files.
    pub cache: PathBuf,
    /// The token that authenticates requests. Default: the one in the file `token` beside `cache`,
    /// where the hub's own client saves it.
    pub token: Secret,
    /// Whether only files in the cache are used.
    pub offline: bool,
    /// The longest time without a byte, before and during a transfer.
    pub patience: Duration,
}

impl Hub {
    /// Creates a client from the variables of the hub's own clients: `HF_ENDPOINT`, `HF_HUB_CACHE`,
    /// `HF_HOME`, `HF_TOKEN` and `HF_HUB_OFFLINE`.
    ///
    /// # Errors
    ///
    /// `hub_cache` if neither a variable nor a home folder locates the cache.
    pub fn from_environment() -> Result<Self, HubError> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
        let folder = |name: &str| variable(name).map(PathBuf::from);
        let home = || env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| Some(folder("HF_HOME")?.join("hub")))
            .or_else(|| Some(home()?.join(".cache/huggingface/hub")));
        let no_home = || HubError::from(io::Error::other("no home folder; set HF_HOME"));
        let endpoint = variable("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let offline = variable("HF_HUB_OFFLINE");
        Ok(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            cache: cache.ok_or_else(no_home)?,
            token: Secret(variable("HF_TOKEN").map(|token| token.trim().to_owned())),
            offline: offline.is_some_and(|value| !["0", "false", "no"].contains(&value.trim())),
            // At one buffer per minute, one gigabyte takes days: that connection counts as stalled.
            patience: Duration::from_secs(60),
        })
    }

    /// Returns the path of a file in the cache, with all parts of a model in parts in its folder.
    /// Downloads missing files, with a progress bar on a terminal, and verifies each file once.
    ///
    /// # Cancel safety
    ///
    /// Downloaded bytes are kept. A running transfer continues until the process ends.
    ///
    /// # Errors
    ///
    /// [`HubError`].
    pub async fn fetch(&self, file: &HubFile) -> Result<PathBuf, HubError> {
        let path = self.fetch_part(file, &file.file).await?;
        for part in file.other_parts() {
            self.fetch_part(file, &part).await?;
        }
        Ok(path)
    }

    async fn fetch_part(&self, file: &HubFile, part: &str) -> Result<PathBuf, HubError> {
        let (progress, mut bytes) = watch::channel(());
        let (done, result) = oneshot::channel();
        let (hub, name, part) = (self.clone(), file.clone(), part.to_owned());
        // Not a task: the runtime would wait for a stalled transfer before the process can end.
        thread::Builder::new().name("hub".into()).spawn(move || {
            let path = hub.locate(&name, &part, progress);
            let _ = done.send(path.and_then(|path| hub.verify(&name, path)));
        })?;
        while let Ok(changed) = timeout(self.patience, bytes.changed()).await {
            if changed.is_err() {
                // Without a sender the transfer has ended; the checksum takes as long as it takes.
                let message = format!("the client of the hub panicked on {file}");
                return result.await.map_err(|_| HubError::new("hub_client", message))?;
            }
        }
        let patience = self.patience;
        let message = format!("the download of {file} stalled for {patience:?}; start again to resume it");
        Err(HubError::new("hub_stalled", message))
    }

    /// Returns the path of a file in the cache, and downloads it if it is missing.
    fn locate(&self, file: &HubFile, part: &str, progress: watch::Sender<()>) -> Result<PathBuf, HubError> {
        let cache = Cache::new(self.cache.clone());
        let repo = Repo::with_revision(file.repo.clone(), RepoType::Model, file.revision.clone());
        let cached = cache.repo(repo.clone());
        if let Some(path) = cached.get(part) {
            return Ok(path);
        }
        if self.offline {
            let (cache, remedy) = (self.cache.display(), "unset it, or name the path of a file");
            let message = format!("{file} is not in {cache}, and HF_HUB_OFFLINE is set; {remedy}");
            return Err(HubError::new("hub_offline", message));
        }
        fs::create_dir_all(&self.cache)?;
        let failed = |error| self.error(file, &error);
        let token = self.token.0.clone().or_else(|| cache.token());
        let builder = ApiBuilder::from_cache(cache).with_endpoint(self.endpoint.clone());
        let builder = builder.with_retries(RETRIES).with_token(token);
        let api = builder.build().map_err(failed)?;
        let remote = api.repo(repo);
        let metadata = api.metadata(&remote.url(part)).map_err(failed)?;
        // hf-hub makes both values parts of paths.
        let (checksum, commit) = (metadata.etag(), metadata.commit_hash());
        if !is_hex(checksum, 64) || !is_hex(commit, 40) {
            return Err(self.no_checksum(file));
        }
        let pointer = cached.pointer_path(commit).join(part);
        if pointer.exists() {
            // Downloaded before, under another name of the same commit.
            cached.create_ref(commit)?;
            return Ok(pointer);
        }
        // hf-hub cannot replace a link whose target is missing. The record belongs to that target.
        let verified = cached.blob_path(checksum).with_extension("verified");
        let _ = (fs::remove_file(&pointer), fs::remove_file(verified));
        tracing::info!(%file, "downloading a model file");
        let meter = Meter(ProgressBar::new(0), progress);
        remote.download_with_progress(part, meter).map_err(failed)
    }

    /// Compares a file with its checksum, once: the cache names a file by the checksum that was
    /// published. An empty file beside it, with the suffix `.verified`, records the success.
    fn verify(&self, file: &HubFile, path: PathBuf) -> Result<PathBuf, HubError> {
        let blob = path.canonicalize()?;
        let name = blob.file_name().and_then(|name| name.to_str());
        let Some(published) = name.filter(|name| is_hex(name, 64)) else {
            return Err(self.no_checksum(file));
        };
        let verified = blob.with_extension("verified");
        if verified.exists() {
            return Ok(path);
        }
        let mut hash = Sha256::new();
        io::copy(&mut fs::File::open(&blob)?, &mut hash)?;
        let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if found != published {
            // Both the link and its target: the next start would use them.
            let _ = (fs::remove_file(&path), fs::remove_file(&blob));
            let remedy = "it was deleted: start again to download it";
            let message = format!("{file} has SHA-256 {found}, but {published} was published; {remedy}");
            return Err(HubError::new("hub_checksum", message));
        }
        fs::write(verified, "")?;
        Ok(path)
    }

    fn no_checksum(&self, file: &HubFile) -> HubError {
        let remedy = "download it and name its path";
        let message = format!("{} publishes no SHA-256 for {file}; {remedy}", self.endpoint);
        HubError::new("hub_no_checksum", message)
    }

    /// Adds a code and a remedy to an error of hf-hub.
    fn error(&self, file: &HubFile, error: &ApiError) -> HubError {
        let (code, remedy) = match error {
            ApiError::RequestError(request) => match **request {
                StatusCode(401) => (
                    "hub_login",
                    "check the name, and set HF_TOKEN or run `hf auth login`",
                ),
                StatusCode(403) => ("hub_denied", "accept the terms of the repository there"),
                StatusCode(404) => ("hub_missing", "check the name and the revision"),
                StatusCode(_) => ("hub_refused", "try again later"),
                _ => ("hub_unreachable", "download it elsewhere and name its path"),
            },
            _ => ("hub_broken", "start again to resume it"),
        };
        let (endpoint, repo) = (&self.endpoint, &file.repo);
        let message = format!("{file} cannot be downloaded from {endpoint}/{repo} ({error}); {remedy}");
        HubError::new(code, message)
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

/// Whether a text is a SHA-256 or a commit as the hub writes it.
fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
