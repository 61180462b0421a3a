//! The documents of a running server: list, add, remove.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bytes::Bytes;
use clap::Subcommand;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ManageError, Remote, exit};
use crate::ask::clean;
use crate::client::{self, ClientError, JSON, Server, segment};
use crate::ingest::documents_below;

/// Documents that are listed with one request.
const PAGE: usize = 1_000;
/// The type of a file whose name says what it is.
const FILE: &str = "application/octet-stream";

/// What to do with the documents.
#[derive(Debug, Subcommand)]
pub enum Documents {
    /// List the documents: id, chunks, name
    #[command(visible_alias = "ls")]
    List,
    /// Upload files and folders; a document replaces an earlier one with the same name
    Add {
        /// Files, and folders with their documents
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        /// Let everyone find them, not only the user of the key (on a server that knows its users)
        #[arg(long)]
        shared: bool,
    },
    /// Remove documents, by id or by name
    #[command(visible_alias = "remove", alias = "delete")]
    Rm {
        /// Ids or names, as `list` prints them
        #[arg(required = true)]
        documents: Vec<String>,
    },
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

/// Lists, adds or removes documents.
pub async fn documents(command: Documents, remote: Remote, environment: Remote) -> ExitCode {
    let remote = remote.over(environment);
    exit(match command {
        Documents::List => list(&remote).await,
        Documents::Add { paths, shared } => add(&remote, &paths, shared).await,
        Documents::Rm { documents } => remove(&remote, documents).await,
    })
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
        let name = clean(&document.name);
        writeln!(out, "{}  {:>6}  {name}", document.id, document.chunks)?;
    }
    Ok(())
}

/// Uploads the files one by one, so that one that cannot be read does not keep the others out.
async fn add(remote: &Remote, paths: &[PathBuf], shared: bool) -> Result<(), ManageError> {
    let server = remote.server();
    let mut failed = None;
    let mut report = |error| {
        if let Some(earlier) = failed.replace(error) {
            let _ = writeln!(io::stderr(), "error: {earlier}");
        }
    };
    for path in paths {
        if !path.is_dir() {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            match upload(&server, path, &name, shared).await {
                Ok(added) => print_added(remote, path, &added)?,
                Err(error) => report(error),
            }
            continue;
        }
        // The names of its documents begin with the name of the folder, as those of `ingest`.
        let files = documents_below(path);
        if files.is_empty() {
            report(ManageError::NoFiles(path.clone()));
        }
        for (file, name) in files {
            match upload(&server, &file, &name, shared).await {
                Ok(added) => print_added(remote, &file, &added)?,
                Err(error) => report(error),
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

fn print_added(remote: &Remote, path: &Path, added: &Value) -> io::Result<()> {
    match remote.json {
        true => writeln!(io::stdout(), "{added}"),
        false => writeln!(io::stdout(), "{}: added", clean(&path.display().to_string())),
    }
}

async fn upload(server: &Server, path: &Path, name: &str, shared: bool) -> Result<Value, ManageError> {
    let bytes = tokio::fs::read(path).await.map_err(|reason| ManageError::File {
        path: path.to_owned(),
        reason,
    })?;
    let mut uri = format!("/v1/documents?name={}", segment(name));
    if shared {
        uri.push_str("&shared=true");
    }
    let sent = server
        .send(Method::POST, &uri, JSON, Some((FILE, Bytes::from(bytes))))
        .await;
    let uploaded = match sent {
        Ok(response) => client::json(response).await,
        Err(error) => Err(error),
    };
    uploaded.map_err(|source| ManageError::Upload {
        path: path.to_owned(),
        source: without_name(source, name),
    })
}

/// Leaves out the name of the file, with which the server's message begins.
fn without_name(mut error: ClientError, name: &str) -> ClientError {
    if let ClientError::Refused { message, .. } = &mut error
        && let Some(reason) = message
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(": "))
    {
        *message = reason.to_owned();
    }
    error
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
        match remote.json {
            true => writeln!(
                io::stdout(),
                "{}",
                json!({ "removed": document.id, "name": document.name })
            )?,
            false => writeln!(io::stdout(), "{}: removed", clean(&document.name))?,
        }
    }
    Ok(())
}
