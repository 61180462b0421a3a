//! Checks that a server is fit to store turns and sessions, by its own report (`INFO` and `CONFIG
//! GET appendfsync`).

use super::error::Recovery;
use super::link::{Link, Request};
use super::{Durability, RedisError, RedisOptions};

/// The first version with `XTRIM MINID`, which drops the head of a stream by index.
const MIN_VERSION: (u32, u32) = (6, 2);

/// Checks the server and returns its durability.
pub(crate) async fn check(link: &Link, options: &RedisOptions) -> Result<Durability, RedisError> {
    let mut info = redis::pipe();
    info.cmd("INFO");
    let (info,): (String,) = link.request_once(Request::Commands(&info)).await?;
    let mut config = redis::pipe();
    config.cmd("CONFIG").arg("GET").arg("appendfsync");
    // Unknown if `CONFIG` is forbidden or renamed.
    let fsync: Option<((String, String),)> = match link.request_once(Request::Commands(&config)).await {
        Ok(fsync) => Some(fsync),
        Err(error) if Recovery::from_error(&error) == Recovery::Permanent => None,
        Err(error) => return Err(error.into()),
    };
    let durability = evaluate(&info, fsync.as_ref().map(|((_, fsync),)| fsync.as_str()))?;
    if !durability.covers(options.required) {
        return Err(RedisError::Durability {
            found: durability,
            needed: options.required,
        });
    }
    if durability != Durability::Always {
        tracing::warn!(?durability, "redis may lose writes that it has acknowledged");
    }
    Ok(durability)
}

/// Returns the durability of the server that sent `info`, or why it cannot be used.
fn evaluate(info: &str, fsync: Option<&str>) -> Result<Durability, RedisError> {
    let field = |name: &str| {
        let mut lines = info.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
    };
    let version = field("redis_version").unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < MIN_VERSION {
        return Err(RedisError::Version {
            found: version.to_owned(),
        });
    }
    if field("cluster_enabled") == Some("1") {
        return Err(RedisError::Cluster);
    }
    if field("role").is_some_and(|role| role != "master") {
        return Err(RedisError::Replica);
    }
    let policy = field("maxmemory_policy").unwrap_or("noeviction");
    if field("maxmemory").is_some_and(|bytes| bytes != "0") && policy != "noeviction" {
        return Err(RedisError::Evicts {
            policy: policy.to_owned(),
        });
    }
    Ok(match (field("aof_enabled"), fsync) {
        (Some("0"), _) => Durability::None,
        (Some("1"), Some("always")) => Durability::Always,
        (Some("1"), Some("everysec" | "no")) => Durability::EverySecond,
        _ => Durability::Unknown,
    })
}

#[cfg(test)]
mod tests;
