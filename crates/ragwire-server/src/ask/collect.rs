//! A whole answer for a program: what `eval` measures.

use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use ragwire::event::{Event, Source};
use ragwire::session::Message;
use ragwire::{Citation, End, Frame, Metadata, Status};
use serde_json::json;

use super::options::WireName;
use super::request::TURNS;
use super::{AskError, check_type};
use crate::client::Server;

/// What a server sent for one question.
#[derive(Debug)]
#[non_exhaustive]
pub struct CollectedAnswer {
    /// The passages that it reported, best first.
    pub sources: Vec<Source>,
    /// The text.
    pub text: String,
    /// The passages that the text cites.
    pub citations: Vec<Citation>,
    /// Whether the server says that the text answers the question.
    pub answered: bool,
    /// Whether the text shows the closest passages because none answers.
    pub closest: bool,
    /// How the turn ended.
    pub status: Status,
    /// The time from the request to the end.
    pub took: Duration,
}

/// Where a question is asked.
#[derive(Clone, Copy, Debug)]
pub enum Conversation<'a> {
    /// After the questions of this session.
    Session(&'a str),
    /// After these messages, oldest first.
    History(&'a [Message]),
}

/// Asks a server and collects the answer.
///
/// # Errors
///
/// The server cannot be reached, refused the question, or sent something else than an answer.
pub async fn collect(
    server: &Server,
    prompt: &str,
    conversation: Conversation<'_>,
) -> Result<CollectedAnswer, AskError> {
    let wire = WireName::Ndjson;
    let body = match conversation {
        Conversation::Session(id) => json!({ "prompt": prompt, "session_id": id }),
        Conversation::History(messages) => json!({ "prompt": prompt, "history": messages }),
    };
    let start = Instant::now();
    let response = server.post(TURNS, wire.media_type(), &body).await?;
    check_type(wire, response.headers())?;
    let mut body = response.into_body();
    let mut decoder = wire.decoder();
    let (mut sources, mut text) = (Vec::new(), String::new());
    loop {
        let ended = match body.frame().await {
            Some(Ok(frame)) => {
                decoder.feed(frame.data_ref().map_or(&[][..], |data| data));
                false
            }
            Some(Err(_)) | None => {
                decoder.finish();
                true
            }
        };
        for frame in decoder.by_ref() {
            match frame? {
                Frame::Event { event, .. } => {
                    if let Event::Sources(found) = event {
                        sources = found.sources;
                    }
                }
                Frame::Text(more) => text.push_str(&more),
                Frame::Snapshot(snapshot) => text = snapshot.text,
                Frame::End(End { status, metadata, .. }) => {
                    return Ok(answer(sources, text, metadata, status, start.elapsed()));
                }
            }
        }
        if ended {
            return Err(AskError::Truncated);
        }
    }
}

fn answer(
    sources: Vec<Source>,
    text: String,
    metadata: Metadata,
    status: Status,
    took: Duration,
) -> CollectedAnswer {
    let flag = |name: &str| metadata.extra.get(name).and_then(serde_json::Value::as_bool);
    CollectedAnswer {
        // A pipeline that does not say so answers when it cites.
        answered: flag("answered").unwrap_or(!metadata.citations.is_empty()),
        closest: flag("closest").unwrap_or(false),
        citations: metadata.citations,
        sources,
        text,
        status,
        took,
    }
}
