//! What goes wrong with a Redis server: which of it passes, which does not, and how it is told when the journal is opened.

use redis::ErrorKind;

use super::options::Durability;

/// Why a journal on Redis is not opened. The words name no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The address is none.
    #[error("redis url is not valid: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// The prefix of the keys is none.
    #[error("redis prefix is not 1 to 64 printable ascii characters without braces")]
    Prefix,
    /// Nobody answers there, or not in time.
    #[error("redis server does not answer: {reason}")]
    Unreachable {
        /// What happened.
        reason: String,
    },
    /// The server wants a user or a password, another one, or forbids what is needed.
    #[error("redis server refuses access: {reason}")]
    Denied {
        /// What it says.
        reason: String,
    },
    /// The server is older than 6.2.
    #[error("redis server has version {found}, at least 6.2 is needed")]
    Version {
        /// What it says.
        found: String,
    },
    /// The server is a replica; only its master takes frames.
    #[error("redis server is a replica, its master is needed")]
    Replica,
    /// The server is part of a cluster, which this journal does not speak to.
    #[error("redis server is part of a cluster, which is not supported")]
    Cluster,
    /// The server throws keys away when its memory is full, and with them turns that run.
    #[error("redis server has maxmemory-policy {policy}, noeviction is needed")]
    Evicts {
        /// Its policy.
        policy: String,
    },
    /// The server keeps less than [`RedisOptions::require`](super::RedisOptions::require) says.
    #[error("redis server keeps {found:?}, {needed:?} is required")]
    Durability {
        /// What it keeps.
        found: Durability,
        /// What is required.
        needed: Durability,
    },
    /// The server says something else that the journal cannot work with.
    #[error("redis server cannot be used: {reason}")]
    Unusable {
        /// What it says.
        reason: String,
    },
}

impl RedisError {
    /// Stable machine word for this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url { .. } => "redis_url",
            Self::Prefix => "redis_prefix",
            Self::Unreachable { .. } => "redis_unreachable",
            Self::Denied { .. } => "redis_denied",
            Self::Version { .. } => "redis_version",
            Self::Replica => "redis_replica",
            Self::Cluster => "redis_cluster",
            Self::Evicts { .. } => "redis_evicts",
            Self::Durability { .. } => "redis_durability",
            Self::Unusable { .. } => "redis_unusable",
        }
    }

    /// By the category only: a message may repeat the address, and with it the password.
    pub(super) fn url(error: &redis::RedisError) -> Self {
        Self::Url {
            reason: error.category().to_owned(),
        }
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        let reason = error.to_string();
        let said = Said::of(&error);
        match said.as_ref().map(|said| said.code.as_str()) {
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Self::Denied { reason },
            _ if error.kind() == ErrorKind::AuthenticationFailed => Self::Denied { reason },
            _ if Trouble::of(&error) == Trouble::Passing => Self::Unreachable { reason },
            _ => Self::Unusable { reason },
        }
    }
}

/// Whether it makes sense to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It may be over in a moment: the server starts, changes its role, or somebody makes room.
    Passing,
    /// It stays until somebody changes something.
    Lasting,
}

/// What the server says first when it is only a matter of time.
const PASSING: [&str; 13] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
    "EXECABORT",
    "NOTREADY",
];

/// What it says where it is not.
const LASTING: [&str; 8] = [
    "ASK",
    "CROSSSLOT",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOPROTO",
    "WRONGPASS",
    "WRONGTYPE",
];

impl Trouble {
    pub(super) fn of(error: &redis::RedisError) -> Self {
        if let Some(Said { code, detail }) = Said::of(error) {
            // The server says so before anything else, then closes the connection.
            let is_crowded = detail.starts_with("max number of clients reached");
            return if is_crowded || PASSING.contains(&&*code) {
                Self::Passing
            } else {
                Self::Lasting
            };
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Lasting,
            // A parse error is an answer cut in the middle.
            ErrorKind::Io | ErrorKind::Parse => Self::Passing,
            _ if error.is_connection_dropped() || error.is_timeout() || error.is_unrecoverable_error() => {
                Self::Passing
            }
            _ => Self::Lasting,
        }
    }
}

/// An error in the server's own words.
struct Said {
    /// The word that it begins with.
    code: String,
    detail: String,
}

impl Said {
    /// The first error, where several commands went together.
    fn of(error: &redis::RedisError) -> Option<Self> {
        let said = error.clone().into_server_errors()?;
        let (_, said) = said.first()?;
        let detail = said.details().unwrap_or_default();
        let mut code = said.code();
        // Before 7.0 an error inside of a script hides behind one of the script.
        if code == "ERR" && detail.contains("Error running script") {
            let words = detail
                .split_ascii_whitespace()
                .map(|word| word.trim_start_matches('-'));
            let mut known = words.filter(|word| PASSING.contains(word) || LASTING.contains(word));
            code = known.next().unwrap_or(code);
        }
        Some(Self {
            code: code.to_owned(),
            detail: detail.to_owned(),
        })
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
