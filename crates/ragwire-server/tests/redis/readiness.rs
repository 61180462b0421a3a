//! `/readyz` follows a Redis server that is killed, suspended and restarted.

use std::time::Duration;

use http::Method;
use ragwire_test_support::redis::RedisServer;
use serde_json::Value;

use crate::hosts::Host;
use crate::reader::call;
use crate::redis_kills::works_again;

/// Waits until `/readyz` has this status, and returns what it says about Redis.
async fn readiness(host: &str, status: u16) -> [String; 2] {
    let mut last = Value::Null;
    for _ in 0..600 {
        let (now, report) = call(Method::GET, host, "/readyz", None).await.unwrap();
        if now == status {
            return ["status", "checks"].map(|name| match &report[name] {
                checks if checks.is_object() => checks["redis"].as_str().unwrap().to_owned(),
                status => status.as_str().unwrap().to_owned(),
            });
        }
        last = report;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{host} does not have the status {status}: {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_unready_while_its_redis_does_not_answer() {
    let mut redis = RedisServer::durable("always");
    let [here, there] = Host::several(&redis, &[]);
    let hosts = [here.address(), there.address()];
    for outage in ["killed", "suspended"] {
        for host in hosts {
            assert_eq!(readiness(host, 200).await, ["ready", "ok"], "before {outage}");
        }
        match outage {
            "killed" => redis.kill(),
            _ => redis.freeze(),
        }
        for host in hosts {
            assert_eq!(
                readiness(host, 503).await,
                ["unavailable", "unreachable"],
                "{outage}"
            );
            // The process itself is alive: restarting it would not help.
            let (status, _) = call(Method::GET, host, "/livez", None).await.unwrap();
            assert_eq!(status, 200);
        }
        match outage {
            "killed" => redis.restart(),
            _ => redis.thaw(),
        }
        for host in hosts {
            assert_eq!(readiness(host, 200).await, ["ready", "ok"], "after {outage}");
        }
        works_again(hosts[0], hosts[1]).await;
    }
}
