//! A private server for a folder of documents: a child process with a temporary library, so that
//! the answers are those of the product.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::EvalError;
use crate::client::Server;

/// Number of lines of a server that did not start which are shown.
const SHOWN_LINES: usize = 5;

/// A server process, killed when it is dropped, with its library.
#[derive(Debug)]
pub(super) struct OwnServer {
    child: Child,
    address: Server,
    data: PathBuf,
}

impl OwnServer {
    /// Starts a server and waits until it has read the documents.
    pub(super) fn start(docs: &[PathBuf]) -> Result<Self, EvalError> {
        let names: Vec<String> = docs.iter().map(|path| path.display().to_string()).collect();
        let failed = |reason: String| EvalError::Folder {
            docs: names.join(", "),
            reason,
        };
        if let Some(missing) = docs.iter().find(|path| !path.exists()) {
            return Err(failed(format!("{} does not exist", missing.display())));
        }
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let data = std::env::temp_dir().join(format!("ragwire-eval-{}", std::process::id()));
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--graph=false", "--data"])
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        for path in docs {
            command.arg("--docs").arg(path);
        }
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let lines = child.stderr.take().map(|stderr| BufReader::new(stderr).lines());
        let mut said = Vec::new();
        let mut address: Option<Server> = None;
        let mut lines = lines.into_iter().flatten().map_while(Result::ok);
        for line in lines.by_ref() {
            if let Some((_, found)) = line.split_once("answers at ") {
                address = found.parse().ok();
                break;
            }
            said.push(line);
        }
        // An unread pipe would block the server when it logs.
        let rest = std::thread::Builder::new().name("eval-server-log".to_owned());
        let mut own = Self {
            child,
            address: address.clone().unwrap_or_default(),
            data,
        };
        if address.is_none() {
            let _ = own.child.wait();
            let shown = said.len().saturating_sub(SHOWN_LINES);
            return Err(failed(said[shown..].join("; ")));
        }
        rest.spawn(move || lines.for_each(drop))
            .map_err(|error| failed(error.to_string()))?;
        Ok(own)
    }

    /// Its address.
    pub(super) fn address(&self) -> &Server {
        &self.address
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}
