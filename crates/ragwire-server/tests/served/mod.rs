//! The program as a separate process, for tests that signal or kill it.

mod command;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

pub(crate) use command::program;

/// A server process, killed when it is dropped.
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) address: String,
    said: Arc<Mutex<Vec<String>>>,
}

impl Served {
    /// Starts it with the test faults on a free port and waits until it prints the address.
    pub(crate) fn start(data: &Path, more: &[&str]) -> Self {
        Self::start_with_log(data, more, "warn")
    }

    /// Does the same with a filter of the log.
    pub(crate) fn start_with_log(data: &Path, more: &[&str], filter: &str) -> Self {
        let mut arguments = vec![
            "--listen",
            "127.0.0.1:0",
            "--test-faults",
            "--graph",
            "--data",
            data.to_str().unwrap(),
        ];
        arguments.extend(more);
        let mut command = program(&arguments);
        command.env("RUST_LOG", filter).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut before = Vec::new();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let address = line
                    .split_once("answers at ")
                    .map(|(_, address)| address.trim_end_matches('/').to_owned());
                before.push(line);
                address
            })
            .unwrap_or_else(|| panic!("the address is printed: {before:?}"));
        let said = Arc::new(Mutex::new(before));
        // An unread pipe would block the server when it logs, a closed one would fail it.
        std::thread::spawn({
            let said = Arc::clone(&said);
            move || {
                for line in lines.map_while(Result::ok) {
                    said.lock().unwrap().push(line);
                }
            }
        });
        Self { child, address, said }
    }

    /// Returns the lines that the server has printed.
    #[allow(dead_code, reason = "not every test binary reads the log")]
    pub(crate) fn log(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Sends the signal with this name.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &id])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Served {
    /// Prints the server's output if the test failed.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = self.said.lock().map(|said| said.join("\n")).unwrap_or_default();
            println!("server at {}:\n{said}", self.address);
        }
    }
}
