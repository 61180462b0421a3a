//! Every error reply of a server, as its bytes, and how it is classified.

use super::*;

fn parse(line: &str) -> redis::RedisError {
    let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn every_error_is_transient_or_permanent() {
    use Recovery::{Permanent, Transient};
    for (line, recovery, code) in [
        (
            "LOADING Redis is loading the dataset in memory",
            Transient,
            "redis_unreachable",
        ),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            Transient,
            "redis_unreachable",
        ),
        (
            "TRYAGAIN Multiple keys request during rehashing of slot",
            Transient,
            "redis_unreachable",
        ),
        ("CLUSTERDOWN The cluster is down", Transient, "redis_unreachable"),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Transient,
            "redis_unreachable",
        ),
        (
            "READONLY You can't write against a read only replica.",
            Transient,
            "redis_unreachable",
        ),
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            Transient,
            "redis_unreachable",
        ),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            Transient,
            "redis_unreachable",
        ),
        (
            "MISCONF Errors writing to the AOF file: No space left on device",
            Transient,
            "redis_unreachable",
        ),
        (
            "NOREPLICAS Not enough good replicas to write.",
            Transient,
            "redis_unreachable",
        ),
        (
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            Transient,
            "redis_unreachable",
        ),
        (
            "EXECABORT Transaction discarded because of previous errors.",
            Transient,
            "redis_unreachable",
        ),
        (
            "NOSCRIPT No matching script. Please use EVAL.",
            Transient,
            "redis_unreachable",
        ),
        (
            "ERR max number of clients reached",
            Transient,
            "redis_unreachable",
        ),
        // The same from within a script: first as 7.0 and later report it, then as older versions
        // do.
        (
            "OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:47.",
            Transient,
            "redis_unreachable",
        ),
        (
            "READONLY You can't write against a read only replica. script: 1f, on @user_script:1.",
            Transient,
            "redis_unreachable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:47: @user_script: 47: -OOM command not allowed when used memory > 'maxmemory'.",
            Transient,
            "redis_unreachable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:1: -READONLY You can't write against a read only replica.",
            Transient,
            "redis_unreachable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script: 3: WRONGTYPE Operation against a key",
            Permanent,
            "redis_unusable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:1: user_script:1: attempt to index a nil value",
            Permanent,
            "redis_unusable",
        ),
        ("NOAUTH Authentication required.", Permanent, "redis_denied"),
        (
            "WRONGPASS invalid username-password pair or user is disabled.",
            Permanent,
            "redis_denied",
        ),
        (
            "NOPERM this user has no permissions to run the 'evalsha' command",
            Permanent,
            "redis_denied",
        ),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            Permanent,
            "redis_unusable",
        ),
        (
            "CROSSSLOT Keys in request don't hash to the same slot",
            Permanent,
            "redis_unusable",
        ),
        ("MOVED 3999 127.0.0.1:6381", Permanent, "redis_unusable"),
        ("ASK 3999 127.0.0.1:6381", Permanent, "redis_unusable"),
        (
            "ERR unknown command 'XADD', with args beginning with: ",
            Permanent,
            "redis_unusable",
        ),
        (
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
            Permanent,
            "redis_unusable",
        ),
        ("ERR DB index is out of range", Permanent, "redis_unusable"),
    ] {
        let error = parse(line);
        assert_eq!(Recovery::from_error(&error), recovery, "{line}");
        assert_eq!(RedisError::from(error).code(), code, "{line}");
    }
}

#[test]
fn a_failed_connection_is_transient() {
    use std::io::ErrorKind as Kind;
    for kind in [
        Kind::ConnectionRefused,
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::BrokenPipe,
        Kind::UnexpectedEof,
        Kind::TimedOut,
        Kind::NotFound,
        Kind::HostUnreachable,
    ] {
        let error = redis::RedisError::from(std::io::Error::from(kind));
        assert_eq!(Recovery::from_error(&error), Recovery::Transient, "{kind:?}");
        assert_eq!(RedisError::from(error).code(), "redis_unreachable", "{kind:?}");
    }
}
