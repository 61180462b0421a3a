//! The commands that look after a running server: `health` and `documents`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Subcommand;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::{self, ClientError, JSON, Server, segment};

/// Exit status of a command whose request was refused or not sent.
const FAILED: u8 = 1;
/// Documents that are listed with one request.
const PAGE: usize = 1_000;
/// The type of a file whose name says what it is.
const FILE: &str = "application/octet-stream";

/// Which server.
#[derive(Debug, Default, clap::Args)]
pub struct Remote {
    /// The server's address, http:// unless it says https:// [default: http://127.0.0.1:8787]
    #[arg(long, value_name = "URL", global = true)]
    server: Option<Server>,
    /// Print the server's JSON
    #[arg(long, global = true)]
    json: bool,
}

/// What to do with the documents.
#[derive(Debug, Subcommand)]
pub enum Documents {
    /// List the documents: id, chunks, name
    #[command(visible_alias = "ls")]
    List,
    /// Upload files; a document replaces an earlier one with the same name
    Add {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Remove documents, by id or by name
    #[command(visible_alias = "remove")]
    Rm {
        /// Ids or names, as `list` prints them
        #[arg(required = true)]
        documents: Vec<String>,
    },
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
    #[error("`{name}` is the name of {count} documents; remove them by id")]
    Ambiguous { name: String, count: usize },
    #[error("the output cannot be printed: {0}")]
    Output(#[from] io::Error),
}

/// A page of the list.
#[derive(Debug, Deserialize)]
struct Page {
    documents: Vec<Value>,
    next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Document {
    id: String,
    name: String,
    chunks: u64,
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

/// Lists, adds or removes documents.
pub async fn documents(command: Documents, remote: Remote, environment: Remote) -> ExitCode {
    let remote = remote.over(environment);
    exit(match command {
        Documents::List => list(&remote).await,
        Documents::Add { files } => add(&remote, &files).await,
        Documents::Rm { documents } => remove(&remote, documents).await,
    })
}

impl Remote {
    fn over(self, environment: Self) -> Self {
        Self {
            server: self.server.or(environment.server),
            json: self.json,
        }
    }

    fn server(&self) -> Server {
        self.server.clone().unwrap_or_default()
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

/// Returns the documents of all pages.
async fn all(server: &Server) -> Result<Vec<Value>, ManageError> {
    let (mut documents, mut start) = (Vec::new(), "0".to_owned());
    loop {
        let path = format!("/v1/documents?limit={PAGE}&start={start}");
        let page: Page = client::json(server.request(Method::GET, &path).await?).await?;
        documents.extend(page.documents);
        match page.next {
            Some(next) => start = next,
            None => return Ok(documents),
        }
    }
}

fn parsed(documents: Vec<Value>) -> Result<Vec<Document>, ManageError> {
    let parse = |document| serde_json::from_value(document).map_err(io::Error::other);
    let parsed: Result<_, io::Error> = documents.into_iter().map(parse).collect();
    Ok(parsed?)
}

async fn list(remote: &Remote) -> Result<(), ManageError> {
    let documents = all(&remote.server()).await?;
    let mut out = io::stdout().lock();
    if remote.json {
        writeln!(out, "{}", json!({ "documents": documents }))?;
        return Ok(());
    }
    for document in parsed(documents)? {
        let name = crate::ask::clean(&document.name);
        writeln!(out, "{}  {:>6}  {name}", document.id, document.chunks)?;
    }
    Ok(())
}

/// Uploads the files one by one, so that one that cannot be read does not keep the others out.
async fn add(remote: &Remote, files: &[PathBuf]) -> Result<(), ManageError> {
    let server = remote.server();
    let mut failed = None;
    for path in files {
        match upload(&server, path).await {
            Ok(added) if remote.json => writeln!(io::stdout(), "{added}")?,
            Ok(_) => writeln!(io::stdout(), "{}: added", path.display())?,
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    let _ = writeln!(io::stderr(), "error: {earlier}");
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

async fn upload(server: &Server, path: &Path) -> Result<Value, ManageError> {
    let bytes = tokio::fs::read(path).await.map_err(|reason| ManageError::File {
        path: path.to_owned(),
        reason,
    })?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let uri = format!("/v1/documents?name={}", segment(&name));
    let sent = server
        .send(Method::POST, &uri, JSON, Some((FILE, Bytes::from(bytes))))
        .await;
    let uploaded = match sent {
        Ok(response) => client::json(response).await,
        Err(error) => Err(error),
    };
    uploaded.map_err(|source| ManageError::Upload {
        path: path.to_owned(),
        source,
    })
}

async fn remove(remote: &Remote, wanted: Vec<String>) -> Result<(), ManageError> {
    let server = remote.server();
    let listed = parsed(all(&server).await?)?;
    // All are found before the first is removed, so that a typing mistake removes nothing.
    let mut ids = Vec::new();
    for name in wanted {
        let found: Vec<_> = listed
            .iter()
            .filter(|document| document.id == name || document.name == name)
            .collect();
        match found[..] {
            [document] => ids.push(document),
            [] => return Err(ManageError::Unknown(name)),
            _ => {
                let count = found.len();
                return Err(ManageError::Ambiguous { name, count });
            }
        }
    }
    for document in ids {
        let path = format!("/v1/documents/{}", segment(&document.id));
        server.request(Method::DELETE, &path).await?;
        writeln!(io::stdout(), "{}: removed", crate::ask::clean(&document.name))?;
    }
    Ok(())
}
