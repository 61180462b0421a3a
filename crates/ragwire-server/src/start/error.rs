//! Why a server does not start, and what to do about it.

use std::net::SocketAddr;
use std::path::PathBuf;

use ragwire::session::SessionError;
use ragwire::turn::RedisError;
use ragwire_rag::LibraryError;

use crate::engines::EnginesError;
use crate::extract::OcrError;
use crate::gateway::{GatewayError, chain};
use crate::graph::GraphStartError;
use crate::keys::KeysError;
use crate::settings::Contradiction;
use crate::tls::TlsError;

/// A server that does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The library could not be opened or filled.
    #[error("library in {}: {source}{}", folder.display(), hint(source))]
    Library {
        /// Its folder.
        folder: PathBuf,
        /// The cause.
        source: LibraryError,
    },
    /// The sessions could not be opened.
    #[error("sessions in {}: {source}{}", file.display(), session_hint(source))]
    Sessions {
        /// Their file.
        file: PathBuf,
        /// The cause.
        source: SessionError,
    },
    /// The graph could not be opened or updated.
    #[error(transparent)]
    Graph(#[from] GraphStartError),
    /// A model or the store did not start.
    #[error(transparent)]
    Engines(#[from] EnginesError),
    /// The address cannot be used.
    #[error("cannot listen on {address}: {source}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// The program cannot locate its own executable.
    #[error("cannot start the process that reads documents: {0}")]
    Extractor(#[source] std::io::Error),
    /// Images are to be read, but cannot be.
    #[error(transparent)]
    Ocr(#[from] OcrError),
    /// The Redis server cannot be reached, or is not durable enough.
    #[error("--redis: {}{}", .0, redis_hint(.0))]
    Redis(#[from] RedisError),
    /// The file of API keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[source] std::io::Error),
    /// A path given by the user does not exist. This is a typing mistake, not one bad file among
    /// many.
    #[error("cannot read {}: {reason}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The cause.
        reason: std::io::Error,
    },
    /// The orchestrator outside of this process cannot be prepared or started.
    #[error("orchestrator {target}: {}", chain(source))]
    Orchestrator {
        /// Its address without a path, or its program.
        target: String,
        /// The cause.
        source: GatewayError,
    },
    /// The settings contradict each other.
    #[error(transparent)]
    Settings(#[from] Contradiction),
    /// `ingest` with an orchestrator.
    #[error("an orchestrator answers in place of the library; ingest without --orchestrator")]
    NoLibrary,
    /// `ingest` without paths.
    #[error("no paths to index; name files or folders")]
    NoPaths,
}

fn hint(error: &LibraryError) -> &'static str {
    match error {
        LibraryError::InUse => "; stop it, or choose another folder with --data",
        LibraryError::Damaged(_) => "; `ragwire-server repair` saves what can be read of it",
        LibraryError::Version { .. } => "; move the file away and index the documents again with --docs",
        LibraryError::Folder(_) => "; name another folder with --data",
        _ => "",
    }
}

fn redis_hint(error: &RedisError) -> &'static str {
    match error {
        RedisError::Unreachable { .. } => "; start it, or correct the address",
        _ => "",
    }
}

fn session_hint(error: &SessionError) -> &'static str {
    match error {
        SessionError::InUse => "; stop the other server, or choose another folder with --data",
        SessionError::Damaged(_) => {
            "; restore the file from a backup, or `ragwire-server repair` moves it away to start without sessions"
        }
        SessionError::Version { .. } => "; move the file away to start without sessions",
        _ => "",
    }
}
