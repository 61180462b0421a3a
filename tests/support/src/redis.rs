//! A real `redis-server` for tests: on a port of its own, in a folder of its own, with the settings that a test wants. It can be killed,
//! started again on the same port and data or without them, stopped in mid-air, and told anything.
//!
//! It needs Debian's package `redis-server`, which brings `redis-cli`.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Ports below those that the system gives to outgoing connections (32768 on Linux): a killed server's port stays free for its
/// successor.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;
/// How long a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(10);

/// What every server of a test is started with, unless the test says otherwise: nothing is kept over a restart.
const SETTINGS: [(&str, &str); 6] = [
    ("bind", "127.0.0.1"),
    ("save", ""),
    ("appendonly", "no"),
    ("enable-debug-command", "local"),
    ("logfile", "redis.log"),
    // A replica begins at once; nothing else looks at it.
    ("repl-diskless-sync-delay", "0"),
];

/// A running server, or one that was killed. Dropping it kills it and removes its folder.
#[derive(Debug)]
pub struct RedisServer {
    folder: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server with these settings of `redis.conf`, and waits until it answers.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        let mut server = Self {
            folder: tempfile::tempdir().unwrap(),
            port: 0,
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            child: None,
        };
        // Somebody may take a free port before the server does.
        for _ in 0..20 {
            server.port = free_port();
            server.spawn();
            if server.answers() {
                return server;
            }
            server.kill();
        }
        panic!("redis-server does not start: {}", server.log());
    }

    /// One that appends every command to its file: `fsync` is `always`, `everysec` or `no`.
    pub fn durable(fsync: &str) -> Self {
        Self::start(&[("appendonly", "yes"), ("appendfsync", fsync)])
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it, as `kill -9` does. Nothing happens to one that is dead already.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on its port and data, and waits until it answers.
    pub fn restart(&mut self) {
        self.restart_unready();
        self.wait();
    }

    /// Starts it again, and does not [`wait`](Self::wait).
    pub fn restart_unready(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Waits until it answers.
    pub fn wait(&mut self) {
        assert!(self.answers(), "redis-server does not come back: {}", self.log());
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(set, _)| set != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Copies its data as they are on the disk now into `folder`, which has none yet.
    pub fn copy_data(&self, folder: &Path) {
        copy(&self.folder.path().join("appendonlydir"), folder);
    }

    /// Kills it, and puts other data in the place of its own: those that [`copy_data`](Self::copy_data) took, or none.
    pub fn replace_data(&mut self, with: Option<&Path>) {
        self.kill();
        let own = self.folder.path().join("appendonlydir");
        if own.exists() {
            fs::remove_dir_all(&own).unwrap();
        }
        if let Some(folder) = with {
            copy(folder, &own);
        }
    }

    /// Kills it, and cuts so many bytes off the end of what it appended last, in the middle of a command if it comes so: what a machine that
    /// crashes has not written yet.
    pub fn kill_and_cut(&mut self, bytes: u64) {
        self.kill();
        let folder = self.folder.path().join("appendonlydir");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let newest = files
            .filter(|path| path.to_string_lossy().ends_with(".incr.aof"))
            .max();
        let file = fs::OpenOptions::new().write(true).open(newest.unwrap()).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(bytes)).unwrap();
    }

    /// Stops the process in mid-air: its sockets stay open, and nobody answers. [`thaw`](Self::thaw) lets it go on.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Ends [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// What `redis-cli` prints for a command.
    pub fn cli(&self, arguments: &[&str]) -> String {
        self.cli_with(&[], arguments)
    }

    /// The same with options of `redis-cli` before the command.
    pub fn cli_with(&self, options: &[&str], arguments: &[&str]) -> String {
        let output = self
            .command(options, arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() {
            said
        } else {
            said + String::from_utf8_lossy(&output.stderr).trim_end()
        }
    }

    /// Sends a command and does not wait for its answer: for those that the server does not answer before they are over.
    pub fn cli_unanswered(&self, arguments: &[&str]) -> Child {
        self.command(&[], arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// One line of `INFO`.
    pub fn info(&self, field: &str) -> Option<String> {
        let info = self.cli(&["INFO", "everything"]);
        let found = info
            .lines()
            .find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'));
        found.map(str::to_owned)
    }

    /// What it wrote into its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("redis.log")).unwrap_or_default()
    }

    fn command(&self, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new("redis-cli");
        command
            .args(["-p", &self.port.to_string()])
            .args(options)
            .args(arguments)
            .env_remove("REDISCLI_AUTH");
        let password = self.settings.iter().find(|(name, _)| name == "requirepass");
        if let Some((_, password)) = password {
            command.env("REDISCLI_AUTH", password);
        }
        command
    }

    fn spawn(&mut self) {
        let mut command = Command::new("redis-server");
        command.current_dir(self.folder.path());
        command.args(["--port", &self.port.to_string()]);
        let own = self.settings.iter().map(|(name, value)| (&**name, &**value));
        for (name, value) in SETTINGS.into_iter().chain(own) {
            command.arg(format!("--{name}"));
            // `replicaof` and the like take several words; an empty value is a word too.
            match value {
                "" => drop(command.arg("")),
                value => drop(command.args(value.split(' '))),
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed: `apt-get install redis-server`");
        self.child = Some(child);
    }

    /// Waits until it answers; false where it ends instead.
    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let child = self.child.as_mut().unwrap();
            if child.try_wait().unwrap().is_some() {
                self.child = None;
                return false;
            }
            if self.cli(&["PING"]) == "PONG" {
                return true;
            }
            assert!(
                Instant::now() < deadline,
                "redis-server does not answer: {}",
                self.log()
            );
            thread::sleep(GLANCE);
        }
    }

    fn signal(&self, name: &str) {
        let Some(child) = &self.child else { return };
        let id = child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(status.success(), "kill -s {name} {id}");
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody listens on, and that no other test of this process was given.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that start at the same time begin at different places.
    let process = u16::try_from(std::process::id() % u32::from(PORTS)).unwrap_or(0);
    for _ in 0..PORTS {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + (process.wrapping_mul(7).wrapping_add(next)) % PORTS;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Writes and syncs files of its own beside a server, so that the disk is busy with it. Without that, `everysec` loses next to nothing when
/// the process is killed. Ends when it is dropped.
#[derive(Debug)]
pub struct FsyncLoad {
    children: Vec<Child>,
    _folder: TempDir,
}

impl FsyncLoad {
    /// So many processes that each write and sync without a pause.
    pub fn start(processes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let children = (0..processes).map(|number| {
            // One `dd` that syncs each block: a shell around it would outlive the kill. 640 MB are more than a test lasts.
            let mut command = Command::new("dd");
            command
                .args([
                    "if=/dev/zero",
                    "bs=16k",
                    "count=40000",
                    "oflag=dsync",
                    "conv=notrunc",
                ])
                .arg(format!("of={}", folder.path().join(number.to_string()).display()));
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.spawn().unwrap()
        });
        Self {
            children: children.collect(),
            _folder: folder,
        }
    }
}

impl Drop for FsyncLoad {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
