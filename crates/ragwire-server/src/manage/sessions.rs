//! The sessions of a running server: list, rename, delete.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ManageError, Remote, exit};
use crate::ask::clean;
use crate::client::{self, ClientError, segment};

const SESSIONS: &str = "/v1/sessions";

/// What to do with the sessions.
#[derive(Debug, Subcommand)]
pub enum Sessions {
    /// List the sessions, the one changed last first: id, time of the last change, messages, title
    #[command(visible_alias = "ls")]
    List,
    /// Give a session another title
    Rename {
        /// Its id, as `list` prints it
        id: String,
        /// The title, of 1 to 200 characters
        title: String,
    },
    /// Delete sessions and the record of their turns, by id
    #[command(visible_alias = "remove", alias = "delete")]
    Rm {
        /// Ids, as `list` prints them
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Deserialize)]
struct Listed {
    sessions: Vec<Session>,
}

#[derive(Debug, Deserialize)]
struct Session {
    id: String,
    title: Option<String>,
    /// Seconds since 1970.
    updated_at: f64,
    messages: u64,
}

/// Lists, renames or deletes sessions.
pub async fn sessions(command: Sessions, remote: Remote, environment: Remote) -> ExitCode {
    let remote = remote.over(environment);
    exit(match command {
        Sessions::List => list(&remote).await,
        Sessions::Rename { id, title } => rename(&remote, &id, &title).await,
        Sessions::Rm { ids } => remove(&remote, &ids).await,
    })
}

async fn list(remote: &Remote) -> Result<(), ManageError> {
    let response = remote.server().request(Method::GET, SESSIONS).await?;
    let mut out = io::stdout().lock();
    if remote.json {
        let listed: Value = client::json(response).await?;
        writeln!(out, "{listed}")?;
        return Ok(());
    }
    let listed: Listed = client::json(response).await?;
    for session in listed.sessions {
        let (id, title) = (
            clean(&session.id),
            clean(session.title.as_deref().unwrap_or_default()),
        );
        let changed = time(session.updated_at);
        writeln!(
            out,
            "{id}  {changed}  {:>4}  {}",
            session.messages,
            title.replace('\n', " ")
        )?;
    }
    Ok(())
}

/// Returns the time in UTC, to the minute.
fn time(seconds: f64) -> String {
    let time = jiff::Timestamp::from_second(seconds as i64);
    time.map_or_else(
        |_| "?".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%MZ").to_string(),
    )
}

async fn rename(remote: &Remote, id: &str, title: &str) -> Result<(), ManageError> {
    let body = json!({ "title": title }).to_string();
    let path = format!("{SESSIONS}/{}", segment(id));
    let server = remote.server();
    let body = Some((client::JSON, body.into()));
    let sent = server.send(Method::PATCH, &path, client::JSON, body).await;
    let renamed: Value = client::json(sent.map_err(|error| unknown(error, id))?).await?;
    match remote.json {
        true => writeln!(io::stdout(), "{renamed}")?,
        false => writeln!(io::stdout(), "{}: renamed", clean(id))?,
    }
    Ok(())
}

async fn remove(remote: &Remote, ids: &[String]) -> Result<(), ManageError> {
    let server = remote.server();
    for id in ids {
        let path = format!("{SESSIONS}/{}", segment(id));
        let sent = server.request(Method::DELETE, &path).await;
        sent.map_err(|error| unknown(error, id))?;
        match remote.json {
            true => writeln!(io::stdout(), "{}", json!({ "removed": id }))?,
            false => writeln!(io::stdout(), "{}: removed", clean(id))?,
        }
    }
    Ok(())
}

fn unknown(error: ClientError, id: &str) -> ManageError {
    match error {
        ClientError::Refused { status, .. } if status == StatusCode::NOT_FOUND => {
            ManageError::UnknownSession(id.to_owned())
        }
        error => error.into(),
    }
}
