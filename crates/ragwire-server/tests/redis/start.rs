//! A server does not start with a Redis server that it cannot use, and says why; the password is
//! never printed.

use std::process::Stdio;

use ragwire_test_support::redis::RedisServer;

use crate::hosts::Host;
use crate::redis_kills::works_again;
use crate::served::program;

const PASSWORD: &str = "correct-horse-battery";

/// Runs the server and returns its exit status and its output.
fn refused(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let common = [
        "--listen",
        "127.0.0.1:0",
        "--data",
        data.to_str().unwrap(),
        "--redis-retry",
        "1s",
    ];
    let output = program(&[&common, arguments].concat())
        .envs(variables.iter().copied())
        .env("RUST_LOG", "trace")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output_text = [output.stdout, output.stderr].concat();
    let output_text = String::from_utf8(output_text).unwrap();
    (output.status.code().unwrap(), output_text)
}

#[test]
fn an_unusable_redis_is_reported_at_start() {
    let open = RedisServer::start(&[]);
    let locked = RedisServer::start(&[("requirepass", PASSWORD)]);
    let evicts = RedisServer::start(&[("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")]);
    let replica = RedisServer::start(&[("replicaof", &format!("127.0.0.1 {}", open.port()))]);
    let everysec = RedisServer::durable("everysec");
    let mut dead = RedisServer::start(&[]);
    dead.kill();
    let with = |server: &RedisServer, user: &str| format!("redis://{user}@127.0.0.1:{}", server.port());
    let wrong = with(&locked, &format!(":{PASSWORD}-not"));
    let dead_with_password = with(&dead, &format!("default:{PASSWORD}"));
    let cases: [(i32, &[&str], &str); 12] = [
        (1, &["--redis", &dead.url()], "does not answer"),
        (1, &["--redis", &dead_with_password], "does not answer"),
        (1, &["--redis", &locked.url()], "refuses access"),
        (1, &["--redis", &wrong], "refuses access"),
        (
            1,
            &["--redis", &evicts.url()],
            "maxmemory-policy allkeys-lru, noeviction is needed",
        ),
        (1, &["--redis", &replica.url()], "is a replica"),
        (
            1,
            &["--redis", &open.url(), "--redis-durability", "every-second"],
            "is required",
        ),
        (
            1,
            &["--redis", &everysec.url(), "--redis-durability", "always"],
            "is required",
        ),
        (
            2,
            &["--redis", &format!("http://:{PASSWORD}@127.0.0.1")],
            "redis url is not valid",
        ),
        (
            2,
            &["--redis", &format!("{PASSWORD} ?")],
            "redis url is not valid",
        ),
        (
            2,
            &["--redis", &open.url(), "--redis-prefix", "{a}"],
            "redis prefix",
        ),
        (2, &["--redis", &open.url(), "--redis-lease", "2h"], "redis-lease"),
    ];
    for (status, arguments, message) in cases {
        let (exit_status, output_text) = refused(arguments, &[]);
        assert_eq!(exit_status, status, "{arguments:?}: {output_text}");
        assert!(output_text.contains(message), "{arguments:?}: {output_text}");
        assert!(!output_text.contains(PASSWORD), "{arguments:?}: {output_text}");
    }
    let (exit_status, output_text) = refused(&[], &[("RAGWIRE_REDIS", &dead_with_password)]);
    assert!(
        exit_status == 1 && output_text.contains("does not answer") && !output_text.contains(PASSWORD),
        "{output_text}"
    );
    // The error names the position in the file, but does not print the line.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    for wrong in [
        format!("redis = [\"{dead_with_password}\"]\n"),
        format!("redis = \"{dead_with_password}\"\nredis = \"again\"\n"),
        format!("redis = \"{dead_with_password}\n"),
        format!("radis = \"{dead_with_password}\"\n"),
    ] {
        std::fs::write(&file, &wrong).unwrap();
        let (exit_status, output_text) = refused(&["--config", file.to_str().unwrap()], &[]);
        assert!(
            exit_status == 2 && output_text.contains("settings.toml") && !output_text.contains(PASSWORD),
            "{output_text}"
        );
    }
    std::fs::write(&file, format!("redis = \"{dead_with_password}\"\n")).unwrap();
    let (exit_status, output_text) = refused(&["--config", file.to_str().unwrap()], &[]);
    assert!(
        exit_status == 1 && output_text.contains("does not answer") && !output_text.contains(PASSWORD),
        "{output_text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_grants_access_and_a_prefix_separates_services() {
    let locked = RedisServer::start(&[("requirepass", PASSWORD)]);
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", locked.port());
    let one: [Host; 2] = Host::several(&locked, &["--redis", &url]);
    works_again(one[0].address(), one[1].address()).await;
    let other = Host::start(&locked, &["--redis", &url, "--redis-prefix", "other:"]);
    let mut own = crate::reader::ask("own", crate::Numbered::Lines, other.address(), "fault:no-events")
        .await
        .unwrap();
    own.follow([other.address()]).await;
    let path = format!("/v1/turns/{}/stream", own.turn);
    let elsewhere = crate::reader::call(http::Method::GET, one[0].address(), &path, None).await;
    assert_eq!(elsewhere.unwrap().0, 404);
    let keys = locked.cli(&["KEYS", "*"]);
    let is_known = |key: &str| key.starts_with("ragwire:") || key.starts_with("other:");
    assert!(keys.lines().all(is_known), "{keys}");
    assert!(keys.contains(&format!("other:{{{}}}:frames", own.turn)), "{keys}");
}
