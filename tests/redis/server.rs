//! A Redis server of a test's own: a fresh process on a socket in a folder of its own, gone with the value.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ragwire::turn::{Journal, JournalLimits, RedisOptions};

/// A running server.
pub(crate) struct Server {
    process: Child,
    folder: PathBuf,
    pub(crate) url: String,
    socket: PathBuf,
}

impl Server {
    /// A server with these settings on top of those that keep it to itself.
    pub(crate) fn with(settings: &[&str]) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ragwire-redis-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("redis.sock");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--daemonize", "no", "--dir"])
            .arg(&folder)
            .arg("--unixsocket")
            .arg(&socket)
            .args(settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("these tests need redis-server: install the Debian package redis-server");
        let url = format!("unix://{}", socket.display());
        let server = Self {
            process,
            url,
            socket,
            folder,
        };
        server.await_start();
        server
    }

    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    fn await_start(&self) {
        let begun = Instant::now();
        while self.ask(&["PING"]).is_empty() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "redis-server does not start"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Short times, so that tests do not sleep; a lease that a busy machine keeps.
    pub(crate) fn options(&self) -> RedisOptions {
        RedisOptions::new(&self.url)
            .unwrap()
            .lease(Duration::from_millis(1_500))
            .retry(Duration::from_secs(5))
            .call_timeout(Duration::from_secs(5))
    }

    /// A journal as another host would open it.
    pub(crate) async fn journal(&self) -> Journal {
        self.journal_within(JournalLimits::default()).await
    }

    pub(crate) async fn journal_within(&self, limits: JournalLimits) -> Journal {
        Journal::redis(self.options(), limits).await.unwrap()
    }

    /// What the server says to a command, a line each; nothing where it does not answer.
    pub(crate) fn ask(&self, command: &[&str]) -> Vec<String> {
        let mut cli = Command::new("redis-cli");
        let said = cli.arg("-s").arg(&self.socket).args(command).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        said.lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
