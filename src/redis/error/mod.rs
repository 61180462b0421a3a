//! Errors of a Redis server: which are transient, which are permanent, and how they are reported
//! when a journal or a session store is opened.

use redis::ErrorKind;

use super::Durability;

/// Why a journal or a session store on Redis does not open. The messages contain no password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The address is not valid.
    #[error("redis url is not valid: {reason}")]
    Url {
        /// What is wrong with it.
        reason: String,
    },
    /// The prefix of the keys is not valid.
    #[error("redis prefix is not 1 to 64 printable ascii characters without braces")]
    Prefix,
    /// The server does not answer, or not in time.
    #[error("redis server does not answer: {reason}")]
    Unreachable {
        /// What happened.
        reason: String,
    },
    /// The user or the password is missing or wrong, or the user may not run a command that is
    /// needed.
    #[error("redis server refuses access: {reason}")]
    Denied {
        /// The server's message.
        reason: String,
    },
    /// The server is older than 6.2.
    #[error("redis server has version {found}, at least 6.2 is needed")]
    Version {
        /// The server's version.
        found: String,
    },
    /// The server is a replica; only its master accepts writes.
    #[error("redis server is a replica, its master is needed")]
    Replica,
    /// The server is part of a cluster, which is not supported.
    #[error("redis server is part of a cluster, which is not supported")]
    Cluster,
    /// The server evicts keys when its memory is full, including those of running turns.
    #[error("redis server has maxmemory-policy {policy}, noeviction is needed")]
    Evicts {
        /// The server's policy.
        policy: String,
    },
    /// The server's durability is lower than
    /// [`RedisOptions::require`](super::RedisOptions::require) demands.
    #[error("redis server has durability {found:?}, {needed:?} is required")]
    Durability {
        /// The server's durability.
        found: Durability,
        /// The required durability.
        needed: Durability,
    },
    /// The server returns another error that does not pass.
    #[error("redis server cannot be used: {reason}")]
    Unusable {
        /// The server's message.
        reason: String,
    },
}

impl RedisError {
    /// Returns the stable, machine-readable name of this error.
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

    /// Reports the category only: the message may repeat the address, and with it the password.
    pub(super) fn url(error: &redis::RedisError) -> Self {
        Self::Url {
            reason: error.category().to_owned(),
        }
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        let reason = error.to_string();
        let reply = ErrorReply::from_error(&error);
        match reply.as_ref().map(|reply| reply.code.as_str()) {
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => Self::Denied { reason },
            _ if error.kind() == ErrorKind::AuthenticationFailed => Self::Denied { reason },
            _ if Recovery::from_error(&error) == Recovery::Transient => Self::Unreachable { reason },
            _ => Self::Unusable { reason },
        }
    }
}

/// Whether an error can pass without a change to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// It may pass in a moment: the server starts, changes its role, or has run out of memory.
    Transient,
    /// It stays until an operator changes something.
    Permanent,
}

/// Error codes of a server that may recover by itself.
const TRANSIENT: [&str; 13] = [
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

/// Error codes that need an operator.
const PERMANENT: [&str; 8] = [
    "ASK",
    "CROSSSLOT",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOPROTO",
    "WRONGPASS",
    "WRONGTYPE",
];

impl Recovery {
    pub(super) fn from_error(error: &redis::RedisError) -> Self {
        if let Some(ErrorReply { code, detail }) = ErrorReply::from_error(error) {
            // The server sends this as its first reply, then closes the connection.
            let is_full = detail.starts_with("max number of clients reached");
            return if is_full || TRANSIENT.contains(&&*code) {
                Self::Transient
            } else {
                Self::Permanent
            };
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Permanent,
            // A parse error is a reply that was cut in the middle.
            ErrorKind::Io | ErrorKind::Parse => Self::Transient,
            _ if error.is_connection_dropped() || error.is_timeout() || error.is_unrecoverable_error() => {
                Self::Transient
            }
            _ => Self::Permanent,
        }
    }
}

/// An error reply of the server.
struct ErrorReply {
    /// Its first word.
    code: String,
    detail: String,
}

impl ErrorReply {
    /// Returns the first error reply where several commands were sent together.
    fn from_error(error: &redis::RedisError) -> Option<Self> {
        let replies = error.clone().into_server_errors()?;
        let (_, reply) = replies.first()?;
        let detail = reply.details().unwrap_or_default();
        let mut code = reply.code();
        // Before 7.0, the error of a command in a script is wrapped in an error of the script.
        if code == "ERR" && detail.contains("Error running script") {
            let words = detail
                .split_ascii_whitespace()
                .map(|word| word.trim_start_matches('-'));
            let mut known = words.filter(|word| TRANSIENT.contains(word) || PERMANENT.contains(word));
            code = known.next().unwrap_or(code);
        }
        Some(Self {
            code: code.to_owned(),
            detail: detail.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests;
