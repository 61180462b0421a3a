//! The suite on a Redis server, and what is special about servers: they serve several hosts, they
//! can be away, and they can lose the reply to a change.

use std::time::Duration;

use proptest::prelude::*;
use ragwire_test_support::redis::RedisServer;

use super::{Storage, model, run_suite, texts};
use crate::redis::RedisOptions;
use crate::session::backend::redis::Redis;
use crate::session::backend::{Backend, Stored};
use crate::session::clock::Clock;
use crate::session::key::Key;
use crate::session::{Role, SessionLimits, Sessions};

fn options(server: &RedisServer) -> RedisOptions {
    RedisOptions::new(&server.url())
        .unwrap()
        .retry(Duration::from_secs(5))
}

impl Storage for RedisServer {
    async fn open(&self, limits: SessionLimits, clock: Clock) -> Sessions {
        Sessions::redis_with(&options(self), limits, clock).await.unwrap()
    }
}

run_suite!(RedisServer::start(&[]));

proptest! {
    // Few cases: each has a server of its own.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_server_behaves_like_a_plain_map(steps in model::steps()) {
        model::run(RedisServer::start(&[]), steps);
    }
}

#[tokio::test]
async fn two_hosts_share_their_sessions() {
    let server = RedisServer::start(&[]);
    let limits = SessionLimits::default();
    let one = Sessions::redis(&options(&server), limits).await.unwrap();
    let two = Sessions::redis(&options(&server), limits).await.unwrap();
    let begun = one.begin("o", None).await.unwrap();
    let changed = two.append("o", begun.id(), Role::User, "Why?").await.unwrap();
    assert_eq!(one.get("o", begun.id()).await.unwrap(), changed);
    let others = options(&server).prefix("others:").unwrap();
    let others = Sessions::redis(&others, limits).await.unwrap();
    assert_eq!(
        others.get("o", begun.id()).await.unwrap_err().code(),
        "unknown_session"
    );
    assert!(one.delete("o", begun.id()).await.unwrap());
    assert_eq!(
        two.get("o", begun.id()).await.unwrap_err().code(),
        "unknown_session"
    );
}

#[tokio::test]
async fn a_repeated_change_takes_effect_once() {
    let server = RedisServer::start(&[]);
    let redis = Redis::open(&options(&server), SessionLimits::default(), Clock::default()).await;
    let redis = redis.unwrap();
    let key = Key::new("o", "s").unwrap();
    let mark = redis.new_mark();
    let stamp = redis.swap_as(&key, None, b"1", &mark).await.unwrap();
    assert_eq!(redis.swap_as(&key, None, b"1", &mark).await.unwrap(), stamp);
    assert_eq!(
        redis.swap_as(&key, None, b"2", &redis.new_mark()).await.unwrap(),
        None
    );
    assert_eq!(
        redis.load(&key).await.unwrap(),
        stamp.map(|stamp| Stored {
            stamp,
            bytes: b"1".to_vec()
        })
    );
}

#[tokio::test]
async fn an_outage_is_reported_and_ends() {
    let mut server = RedisServer::durable("always");
    let options = options(&server).retry(Duration::from_millis(100));
    let sessions = Sessions::redis(&options, SessionLimits::default()).await.unwrap();
    let begun = sessions.begin("o", None).await.unwrap();
    sessions.append("o", begun.id(), Role::User, "1").await.unwrap();
    server.kill();
    let error = sessions
        .append("o", begun.id(), Role::User, "2")
        .await
        .unwrap_err();
    assert_eq!(error.code(), "unavailable");
    assert_eq!(
        sessions.get("o", begun.id()).await.unwrap_err().code(),
        "unavailable"
    );
    let unreachable = Sessions::redis(&options, SessionLimits::default())
        .await
        .unwrap_err();
    assert_eq!(unreachable.code(), "redis_unreachable");
    server.restart();
    let restored = async {
        loop {
            match sessions.get("o", begun.id()).await {
                Ok(session) => break session,
                Err(error) => assert_eq!(error.code(), "unavailable"),
            }
        }
    };
    let session = tokio::time::timeout(Duration::from_secs(30), restored)
        .await
        .unwrap();
    assert_eq!(texts(&session), ["1"]);
}

/// Every key expires on the server, also when no client sends requests any more.
#[tokio::test]
async fn expired_sessions_are_removed_by_the_server() {
    let server = RedisServer::start(&[]);
    let limits = SessionLimits::default().max_age(Duration::from_millis(200));
    let sessions = Sessions::redis(&options(&server), limits).await.unwrap();
    sessions.begin("o", None).await.unwrap();
    let client = options(&server).connector.client;
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let removed = async {
        while redis::cmd("DBSIZE")
            .query_async::<usize>(&mut connection)
            .await
            .unwrap()
            > 0
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), removed)
        .await
        .unwrap();
}
