//! Servers that a journal refuses. The errors name the reason and never contain a password.

use ragwire::turn::{Durability, JournalLimits, RedisOptions};

use super::*;

async fn opened(options: RedisOptions) -> Result<Option<Durability>, (String, String)> {
    match Journal::redis(options, JournalLimits::default()).await {
        Ok(journal) => Ok(journal.durability()),
        Err(error) => Err((error.code().to_owned(), error.to_string())),
    }
}

#[tokio::test]
async fn a_server_that_may_lose_turns_is_refused() {
    within(async {
        for (settings, code, message) in [
            (
                &["--maxmemory", "10mb", "--maxmemory-policy", "allkeys-lru"][..],
                "redis_evicts",
                "redis server has maxmemory-policy allkeys-lru, noeviction is needed",
            ),
            (
                &["--replicaof", "127.0.0.1", "1"],
                "redis_replica",
                "redis server is a replica, its master is needed",
            ),
            (
                &["--cluster-enabled", "yes"],
                "redis_cluster",
                "redis server is part of a cluster, which is not supported",
            ),
        ] {
            let server = Server::with(settings);
            let refused = opened(server.options()).await.unwrap_err();
            assert_eq!((&*refused.0, &*refused.1), (code, message));
        }
        // Without a memory limit, the eviction policy has no effect.
        let server = Server::with(&["--maxmemory-policy", "allkeys-lru"]);
        assert_eq!(opened(server.options()).await, Ok(Some(Durability::None)));
    })
    .await;
}

#[tokio::test]
async fn unreachable_and_denying_servers_are_reported() {
    within(async {
        let server = Server::with(&["--requirepass", "open-sesame"]);
        let code = async |url: String| {
            let error = opened(RedisOptions::new(&url).unwrap()).await.unwrap_err();
            assert!(!error.1.contains("sesam"), "{}", error.1);
            error.0
        };
        assert_eq!(code(server.url.clone()).await, "redis_denied");
        assert_eq!(
            code(format!("{}?pass=wrong-sesam", server.url)).await,
            "redis_denied"
        );
        assert_eq!(
            code("unix:///nowhere/redis.sock".to_owned()).await,
            "redis_unreachable"
        );
        let right = RedisOptions::new(&format!("{}?pass=open-sesame", server.url)).unwrap();
        assert!(!format!("{right:?}").contains("sesam"), "{right:?}");
        let journal = Journal::redis(right, JournalLimits::default()).await.unwrap();
        assert!(!format!("{journal:?}").contains("sesam"), "{journal:?}");
        for url in [
            "",
            "http://localhost",
            "redis://:open-sesame@host:port/1",
            "redis://h/x",
        ] {
            let error = RedisOptions::new(url).unwrap_err();
            assert_eq!(error.code(), "redis_url", "{url}");
            assert!(!error.to_string().contains("sesam"), "{error}");
        }
        for prefix in ["", "a{b", "a}b", "a b", "\u{e9}", &"x".repeat(65)] {
            let options = RedisOptions::new(&server.url).unwrap();
            assert_eq!(
                options.prefix(prefix).unwrap_err().code(),
                "redis_prefix",
                "{prefix}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn the_durability_of_the_server_is_reported() {
    within(async {
        for (settings, durability) in [
            (
                &["--appendonly", "yes", "--appendfsync", "always"][..],
                Durability::Always,
            ),
            (
                &["--appendonly", "yes", "--appendfsync", "everysec"],
                Durability::EverySecond,
            ),
            (
                &["--appendonly", "yes", "--rename-command", "CONFIG", ""],
                Durability::Unknown,
            ),
            (&[], Durability::None),
        ] {
            let server = Server::with(settings);
            assert_eq!(opened(server.options()).await, Ok(Some(durability)));
            let strict = server.options().require(Durability::Always);
            let expected = match durability {
                Durability::Always => Ok(Some(durability)),
                _ => Err((
                    "redis_durability".to_owned(),
                    format!("redis server has durability {durability:?}, Always is required"),
                )),
            };
            assert_eq!(opened(strict).await, expected);
        }
    })
    .await;
}

/// Two services on one server do not see each other.
#[tokio::test]
async fn a_prefix_keeps_services_apart() {
    within(async {
        let server = Server::new();
        let here = server.journal().await;
        let options = server.options().prefix("other:").unwrap();
        let other = Journal::redis(options, JournalLimits::default()).await.unwrap();
        let (_sink, _turn, id) = begun(journaled(&here).lane("c")).await;
        assert_eq!(
            other.resume(id, "alice", 0).await.unwrap_err().code(),
            "unknown_turn"
        );
        assert_eq!(other.latest("c", "alice").await, Ok(None));
    })
    .await;
}
