//! Every error that a server says, as its bytes, and what becomes of it.

use super::*;

fn said(line: &str) -> redis::RedisError {
    let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
    value.extract_error().unwrap_err()
}

#[test]
fn every_error_passes_or_stays() {
    use Trouble::{Lasting, Passing};
    for (line, trouble, code) in [
        (
            "LOADING Redis is loading the dataset in memory",
            Passing,
            "redis_unreachable",
        ),
        (
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            Passing,
            "redis_unreachable",
        ),
        (
            "TRYAGAIN Multiple keys request during rehashing of slot",
            Passing,
            "redis_unreachable",
        ),
        ("CLUSTERDOWN The cluster is down", Passing, "redis_unreachable"),
        (
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Passing,
            "redis_unreachable",
        ),
        (
            "READONLY You can't write against a read only replica.",
            Passing,
            "redis_unreachable",
        ),
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            Passing,
            "redis_unreachable",
        ),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            Passing,
            "redis_unreachable",
        ),
        (
            "MISCONF Errors writing to the AOF file: No space left on device",
            Passing,
            "redis_unreachable",
        ),
        (
            "NOREPLICAS Not enough good replicas to write.",
            Passing,
            "redis_unreachable",
        ),
        (
            "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
            Passing,
            "redis_unreachable",
        ),
        (
            "EXECABORT Transaction discarded because of previous errors.",
            Passing,
            "redis_unreachable",
        ),
        (
            "NOSCRIPT No matching script. Please use EVAL.",
            Passing,
            "redis_unreachable",
        ),
        ("ERR max number of clients reached", Passing, "redis_unreachable"),
        // 7.0 and later say it so from within a script, versions before it so.
        (
            "OOM command not allowed when used memory > 'maxmemory'. script: 1f, on @user_script:47.",
            Passing,
            "redis_unreachable",
        ),
        (
            "READONLY You can't write against a read only replica. script: 1f, on @user_script:1.",
            Passing,
            "redis_unreachable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:47: @user_script: 47: -OOM command not allowed when used memory > 'maxmemory'.",
            Passing,
            "redis_unreachable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:1: -READONLY You can't write against a read only replica.",
            Passing,
            "redis_unreachable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script: 3: WRONGTYPE Operation against a key",
            Lasting,
            "redis_unusable",
        ),
        (
            "ERR Error running script (call to f_1f): @user_script:1: user_script:1: attempt to index a nil value",
            Lasting,
            "redis_unusable",
        ),
        ("NOAUTH Authentication required.", Lasting, "redis_denied"),
        (
            "WRONGPASS invalid username-password pair or user is disabled.",
            Lasting,
            "redis_denied",
        ),
        (
            "NOPERM this user has no permissions to run the 'evalsha' command",
            Lasting,
            "redis_denied",
        ),
        (
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            Lasting,
            "redis_unusable",
        ),
        (
            "CROSSSLOT Keys in request don't hash to the same slot",
            Lasting,
            "redis_unusable",
        ),
        ("MOVED 3999 127.0.0.1:6381", Lasting, "redis_unusable"),
        ("ASK 3999 127.0.0.1:6381", Lasting, "redis_unusable"),
        (
            "ERR unknown command 'XADD', with args beginning with: ",
            Lasting,
            "redis_unusable",
        ),
        (
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
            Lasting,
            "redis_unusable",
        ),
        ("ERR DB index is out of range", Lasting, "redis_unusable"),
    ] {
        let error = said(line);
        assert_eq!(Trouble::of(&error), trouble, "{line}");
        assert_eq!(RedisError::from(error).code(), code, "{line}");
    }
}

#[test]
fn a_connection_that_fails_passes() {
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
        assert_eq!(Trouble::of(&error), Trouble::Passing, "{kind:?}");
        assert_eq!(RedisError::from(error).code(), "redis_unreachable", "{kind:?}");
    }
}
