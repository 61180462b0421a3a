//! A real `redis-server` for tests, with its own port, folder and settings. It can be killed,
//! restarted on the same port with or without its data, suspended, and sent any command.
//!
//! It needs Debian's package `redis-server`, which brings `redis-cli`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::ports;

/// The time that a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const GLANCE: Duration = Duration::from_millis(10);

/// The settings of every server, unless the test overrides them: a restart loses all data.
const SETTINGS: [(&str, &str); 6] = [
    ("bind", "127.0.0.1"),
    ("save", ""),
    ("appendonly", "no"),
    ("enable-debug-command", "local"),
    ("logfile", "redis.log"),
    // A replica starts to synchronize at once.
    ("repl-diskless-sync-delay", "0"),
];

/// A server, running or killed. Dropping it kills the process and removes its folder.
#[derive(Debug)]
pub struct RedisServer {
    folder: TempDir,
    port: u16,
    settings: Vec<(String, String)>,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server with these settings of `redis.conf` and waits until it answers.
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
        // Another process may take the free port before the server does.
        for _ in 0..20 {
            server.port = ports::free_port();
            server.spawn();
            if server.answers() {
                return server;
            }
            server.kill();
        }
        panic!("redis-server does not start: {}", server.log());
    }

    /// Starts a server that appends every command to its file; `fsync` is `always`, `everysec` or
    /// `no`.
    pub fn durable(fsync: &str) -> Self {
        Self::start(&[("appendonly", "yes"), ("appendfsync", fsync)])
    }

    /// Returns its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its address, without a password.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Returns its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it, like `kill -9`. Does nothing if it is dead.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Restarts it with its port and data and waits until it answers.
    pub fn restart(&mut self) {
        self.restart_unready();
        self.wait();
    }

    /// Restarts it and does not [`wait`](Self::wait).
    pub fn restart_unready(&mut self) {
        self.kill();
        self.spawn();
    }

    /// Waits until it answers.
    pub fn wait(&mut self) {
        assert!(
            self.answers(),
            "redis-server does not answer again: {}",
            self.log()
        );
    }

    /// Changes a setting for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.settings.retain(|(set, _)| set != name);
        self.settings.push((name.to_owned(), value.to_owned()));
    }

    /// Copies its data, as it is on the disk now, into the empty `folder`.
    pub fn copy_data(&self, folder: &Path) {
        copy(&self.folder.path().join("appendonlydir"), folder);
    }

    /// Kills it and replaces its data by a copy from [`copy_data`](Self::copy_data), or by none.
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

    /// Kills it and removes that many bytes from the end of its append-only file, possibly in the
    /// middle of a command: what a crashed machine has not written yet.
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

    /// Suspends the process: its sockets stay open but do not answer. [`thaw`](Self::thaw) resumes
    /// it.
    pub fn freeze(&self) {
        self.signal("STOP");
    }

    /// Ends [`freeze`](Self::freeze).
    pub fn thaw(&self) {
        self.signal("CONT");
    }

    /// Returns what `redis-cli` prints for a command.
    pub fn cli(&self, arguments: &[&str]) -> String {
        self.cli_with(&[], arguments)
    }

    /// Like [`cli`](Self::cli), with options of `redis-cli` before the command.
    pub fn cli_with(&self, options: &[&str], arguments: &[&str]) -> String {
        let output = self
            .command(options, arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() {
            printed
        } else {
            printed + String::from_utf8_lossy(&output.stderr).trim_end()
        }
    }

    /// Sends a command and does not wait for its reply, for commands that block the server.
    pub fn cli_unanswered(&self, arguments: &[&str]) -> Child {
        self.command(&[], arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Returns one field of `INFO`.
    pub fn info(&self, field: &str) -> Option<String> {
        let info = self.cli(&["INFO", "everything"]);
        let found = info
            .lines()
            .find_map(|line| line.trim_end().strip_prefix(field)?.strip_prefix(':'));
        found.map(str::to_owned)
    }

    /// Returns its log.
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
            // `replicaof` and others take several words; an empty value is a word too.
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

    /// Waits until it answers; returns false if the process ends instead.
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

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Keeps the disk of a server busy by writing and syncing files. Without it, `everysec` loses
/// almost nothing when the process is killed. Ends when it is dropped.
#[derive(Debug)]
pub struct FsyncLoad {
    children: Vec<Child>,
    _folder: TempDir,
}

impl FsyncLoad {
    /// Starts processes that write and sync without a pause.
    pub fn start(processes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let children = (0..processes).map(|number| {
            // `dd` itself syncs each block: a shell loop would outlive the kill. 640 MB are enough
            // for any test.
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
