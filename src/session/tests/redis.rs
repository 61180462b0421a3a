//! What only a server can do: serve two hosts, go away, and lose the answer to what it did.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::session::redis::Redis;
use crate::session::store::{Clock, Key};
use crate::session::{Role, SessionLimits, Sessions};
use crate::turn::RedisOptions;

/// A Redis server on a socket of its own, gone with the value.
pub(super) struct Server {
    process: Child,
    folder: PathBuf,
}

impl Server {
    pub(super) fn new(settings: &[&str]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ragwire-sredis-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut server = Self {
            process: Self::spawn(&folder, settings),
            folder,
        };
        server.wait();
        server
    }

    fn spawn(folder: &std::path::Path, settings: &[&str]) -> Child {
        Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--dir"])
            .arg(folder)
            .arg("--unixsocket")
            .arg(folder.join("redis.sock"))
            .args(settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need redis-server: install the Debian package redis-server")
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(self.folder.join("redis.sock")).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "redis-server does not start"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// `kill -9`.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(super) fn options(&self) -> RedisOptions {
        let url = format!("unix://{}", self.folder.join("redis.sock").display());
        RedisOptions::new(&url).unwrap().retry(Duration::from_secs(5))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn two_hosts_have_the_same_sessions() {
    let server = Server::new(&[]);
    let limits = SessionLimits::default();
    let one = Sessions::redis(&server.options(), limits).await.unwrap();
    let two = Sessions::redis(&server.options(), limits).await.unwrap();
    let begun = one.begin("o", None).await.unwrap();
    let asked = two.append("o", begun.id(), Role::User, "Why?").await.unwrap();
    assert_eq!(one.get("o", begun.id()).await.unwrap(), asked);
    let others = server.options().prefix("others:").unwrap();
    let others = Sessions::redis(&others, limits).await.unwrap();
    assert_eq!(
        others.get("o", begun.id()).await.unwrap_err().code(),
        "unknown_session"
    );
    assert!(one.forget("o", begun.id()).await.unwrap());
    assert_eq!(
        two.get("o", begun.id()).await.unwrap_err().code(),
        "unknown_session"
    );
}

#[tokio::test]
async fn what_was_done_already_is_not_done_again() {
    let server = Server::new(&[]);
    let options = server.options();
    let redis = Redis::open(&options, SessionLimits::default(), Clock::default()).await;
    let redis = redis.unwrap();
    let key = Key {
        owner: "o".into(),
        id: "s".into(),
    };
    let mark = redis.mark();
    let stamp = redis.swap_as(&key, None, b"1", &mark).await.unwrap();
    assert_eq!(redis.swap_as(&key, None, b"1", &mark).await.unwrap(), stamp);
    assert_eq!(
        redis.swap_as(&key, None, b"2", &redis.mark()).await.unwrap(),
        None
    );
    assert_eq!(
        redis.load(&key).await.unwrap(),
        stamp.map(|stamp| (stamp, b"1".to_vec()))
    );
}

#[tokio::test]
async fn a_server_that_goes_away_is_told_and_comes_back() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = Server::new(&durable);
    let options = server.options().retry(Duration::from_millis(100));
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
    let nobody = Sessions::redis(&options, SessionLimits::default())
        .await
        .unwrap_err();
    assert_eq!(nobody.code(), "redis_unreachable");
    server.process = Server::spawn(&server.folder, &durable);
    server.wait();
    let back = async {
        loop {
            match sessions.get("o", begun.id()).await {
                Ok(session) => break session,
                Err(error) => assert_eq!(error.code(), "unavailable"),
            }
        }
    };
    let session = tokio::time::timeout(Duration::from_secs(30), back).await.unwrap();
    assert_eq!(super::texts(&session), ["1"]);
}

/// What the server itself drops, when nobody asks any more.
#[tokio::test]
async fn sessions_leave_the_server_by_themselves() {
    let server = Server::new(&[]);
    let limits = SessionLimits::default().max_age(Duration::from_millis(200));
    let sessions = Sessions::redis(&server.options(), limits).await.unwrap();
    sessions.begin("o", None).await.unwrap();
    let client = server.options().client;
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let gone = async {
        while redis::cmd("DBSIZE")
            .query_async::<usize>(&mut connection)
            .await
            .unwrap()
            > 0
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
}
