//! The commands that look after a running server: `health`, `documents`, `sessions`.

mod documents;
mod sessions;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use http::Method;
use serde_json::Value;

use crate::client::{self, ClientError, Server, ServerFlags};
pub use documents::{Documents, documents};
pub use sessions::{Sessions, sessions};

/// Exit status of a command whose request was refused or not sent.
const FAILED: u8 = 1;

/// Which server.
#[derive(Debug, Default, clap::Args)]
pub struct Remote {
    #[command(flatten)]
    server: ServerFlags,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

/// A command that failed.
#[derive(Debug, thiserror::Error)]
enum ManageError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: io::Error },
    #[error("{}: {source}", path.display())]
    Upload { path: PathBuf, source: ClientError },
    #[error("no document has the id or the name `{0}`; `ragwire-server documents list` lists them")]
    Unknown(String),
    #[error("no session has the id `{0}`; `ragwire-server sessions list` lists them")]
    UnknownSession(String),
    #[error("`{name}` is the name of {count} documents; remove them by id")]
    Ambiguous { name: String, count: usize },
    #[error("{}: the folder has no documents of a type that is read", .0.display())]
    NoFiles(PathBuf),
    #[error("the output cannot be printed: {0}")]
    Output(#[from] io::Error),
}

/// Asks the server whether it accepts questions. Fails if it does not, or is not reached.
pub async fn health(remote: Remote, environment: Remote) -> ExitCode {
    let remote = remote.over(environment);
    let asked = async {
        let response = remote.server().request(Method::GET, "/healthz").await?;
        let health: Value = client::json(response).await?;
        let mut out = io::stdout().lock();
        match remote.json {
            true => writeln!(out, "{health}")?,
            false => {
                write!(
                    out,
                    "{}: {} documents, {} chunks, {} answers running",
                    health["status"].as_str().unwrap_or("ok"),
                    health["documents"],
                    health["chunks"],
                    health["active_turns"]
                )?;
                match health["message"].as_str() {
                    Some(message) => writeln!(out, "; {message}")?,
                    None => writeln!(out)?,
                }
            }
        }
        Ok(())
    };
    exit(asked.await)
}

impl Remote {
    fn over(self, environment: Self) -> Self {
        Self {
            server: self.server.over(environment.server),
            json: self.json,
        }
    }

    fn server(&self) -> Server {
        self.server.server()
    }
}

fn exit(done: Result<(), ManageError>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::from(FAILED)
        }
    }
}
