//! A Redis server for one test: a new process on a socket in its own folder, removed on drop.

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
    /// Starts a server with these settings in addition to those that isolate it.
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

    /// Returns options with short times, so that tests do not sleep, and a lease that a busy
    /// machine renews in time.
    pub(crate) fn options(&self) -> RedisOptions {
        RedisOptions::new(&self.url)
            .unwrap()
            .lease(Duration::from_millis(1_500))
            .retry(Duration::from_secs(5))
            .call_timeout(Duration::from_secs(5))
    }

    /// Opens a journal, as another host would.
    pub(crate) async fn journal(&self) -> Journal {
        self.journal_within(JournalLimits::default()).await
    }

    /// Opens the journals of three hosts.
    pub(crate) async fn journals(&self) -> (Journal, Journal, Journal) {
        (self.journal().await, self.journal().await, self.journal().await)
    }

    pub(crate) async fn journal_within(&self, limits: JournalLimits) -> Journal {
        Journal::redis(self.options(), limits).await.unwrap()
    }

    /// Returns the lines of the server's reply to a command; none if it does not answer.
    pub(crate) fn ask(&self, command: &[&str]) -> Vec<String> {
        let mut cli = Command::new("redis-cli");
        let output = cli.arg("-s").arg(&self.socket).args(command).output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        output.lines().map(str::to_owned).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
