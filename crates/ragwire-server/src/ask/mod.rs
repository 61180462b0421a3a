//! The client `ask`: steps to stderr and text to stdout as they come, and an exit status that says
//! how the turn ended.
//!
//! It reads ragwire's wires with the decoders of the crate, so it is also an example of a client in
//! Rust.

mod collect;
mod options;
mod printing;
mod request;
mod steps;
mod trustgraph;

use std::io;
use std::process::ExitCode;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use ragwire::event::Event;
use ragwire::wire::{Decode, DecodeError};
use ragwire::{End, Frame, Status};
use serde_json::Value;

use crate::client::{self, ClientError};
pub use collect::{CollectedAnswer, Conversation, collect};
use options::WireName;
pub use options::{AskFlags, AskOptions};
use printing::Printer;
pub(crate) use printing::clean;

/// Exit statuses; 0 is a completed turn.
const FAILED: u8 = 1;
const REFUSED: u8 = 2;
const STOPPED: u8 = 3;
const TRUNCATED: u8 = 4;

/// A question without an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The question cannot be sent.
    #[error("{0}")]
    Usage(String),
    /// The server cannot be reached, or refused the question.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server refused the question over a socket, which has no status.
    #[error("{message} ({code})")]
    NotServed {
        /// The code of the refusal.
        code: String,
        /// The message of the refusal.
        message: String,
    },
    /// The connection closed before the end of the stream.
    #[error("the connection closed early: the answer is incomplete")]
    Truncated,
    /// The response is not in the requested format.
    #[error("the server answered with {answered}, not with {wanted}")]
    OtherType {
        /// The media type of the answer.
        answered: String,
        /// The media type of the wire.
        wanted: &'static str,
    },
    /// The answer violates the rules of its wire.
    #[error("the stream cannot be read: {0}")]
    Stream(#[from] DecodeError),
    /// A malformed TrustGraph message.
    #[error("the server sent a malformed message")]
    Message,
    /// Stdout is closed, as with `| head`.
    #[error("the answer cannot be printed: {0}")]
    Output(#[from] io::Error),
}

impl AskError {
    /// Returns the stable code that `--json` prints.
    fn code(&self) -> &str {
        match self {
            Self::Usage(_) => "usage",
            Self::Client(ClientError::Refused { code, .. }) | Self::NotServed { code, .. } => code,
            Self::Client(ClientError::Unreachable { .. }) => "unreachable",
            Self::Client(ClientError::Authorities { .. }) => "authorities",
            Self::Client(ClientError::Truncated) | Self::Truncated => "truncated",
            Self::OtherType { .. } => "other_type",
            Self::Stream(_) | Self::Message => "malformed",
            Self::Output(_) => "output",
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Client(ClientError::Refused { status, .. }) if status.is_server_error() => FAILED,
            Self::Usage(_)
            | Self::Client(
                ClientError::Unreachable { .. }
                | ClientError::Refused { .. }
                | ClientError::Authorities { .. },
            )
            | Self::NotServed { .. }
            | Self::Output(_) => REFUSED,
            Self::Client(ClientError::Truncated)
            | Self::Truncated
            | Self::OtherType { .. }
            | Self::Stream(_)
            | Self::Message => TRUNCATED,
        }
    }
}

/// Asks the question, prints the answer and returns the exit status.
pub async fn run(options: AskOptions) -> ExitCode {
    let mut printer = Printer::new(options.json);
    let ended = ask(options, &mut printer).await;
    let code = match &ended {
        Ok(Status::Completed) => 0,
        Ok(Status::Failed(_)) => FAILED,
        Ok(Status::Stopped) => STOPPED,
        Err(error) => error.exit_code(),
    };
    printer.finish(&ended);
    ExitCode::from(code)
}

async fn ask(options: AskOptions, printer: &mut Printer) -> Result<Status, AskError> {
    let (words, target) = options.settle()?;
    let prompt = request::prompt(&words)?;
    if let Some(service) = &target.service {
        return match service.streaming {
            true => trustgraph::stream(&target.server, service, &prompt, printer).await,
            false => trustgraph::whole(&target.server, service, &prompt, printer).await,
        };
    }
    let response = request::send(&prompt, &target).await?;
    match target.wire {
        Some(wire) => stream(wire, response, printer).await,
        None => whole(response, printer).await,
    }
}

/// Prints a streamed answer.
async fn stream(
    wire: WireName,
    response: Response<Incoming>,
    printer: &mut Printer,
) -> Result<Status, AskError> {
    check_type(wire, response.headers())?;
    let mut body = response.into_body();
    let mut decoder = wire.decoder();
    loop {
        let has_ended = match body.frame().await {
            Some(Ok(frame)) => {
                decoder.feed(frame.data_ref().map_or(&[][..], |data| data));
                false
            }
            // The bytes may end in the middle of a character.
            Some(Err(_)) | None => {
                decoder.finish();
                true
            }
        };
        if let Some(status) = print_all(wire, &mut *decoder, printer)? {
            return Ok(status);
        }
        if has_ended {
            return Err(AskError::Truncated);
        }
    }
}

/// Rejects a response of another type, which the decoder would misread.
fn check_type(wire: WireName, headers: &HeaderMap) -> Result<(), AskError> {
    let wanted = wire.media_type();
    let answered = headers.get(CONTENT_TYPE);
    let answered = answered.map_or_else(
        || "no content type".into(),
        |value| String::from_utf8_lossy(value.as_bytes()),
    );
    if options::essence(&answered).eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(AskError::OtherType {
        answered: answered.into_owned(),
        wanted,
    })
}

/// Prints the decoded frames. Returns the status at the end of the turn.
fn print_all(
    wire: WireName,
    decoder: &mut dyn Decode,
    printer: &mut Printer,
) -> Result<Option<Status>, AskError> {
    for frame in decoder {
        match frame? {
            Frame::Event { event, .. } => printer.event(&event),
            Frame::Text(text) => printer.text(&text)?,
            Frame::Snapshot(snapshot) => printer.snapshot(&snapshot)?,
            Frame::End(End { status, metadata, .. }) => {
                if let Status::Failed(failure) = &status
                    && !wire.has_failure_in_text()
                {
                    printer.failure(&failure.message)?;
                }
                printer.remarks(&metadata);
                printer.citations(metadata.citations)?;
                return Ok(Some(status));
            }
        }
    }
    Ok(None)
}

/// Prints an answer in one piece.
async fn whole(response: Response<Incoming>, printer: &mut Printer) -> Result<Status, AskError> {
    let answer: Value = client::json(response).await?;
    let text = answer["answer"].as_str().ok_or(AskError::Truncated)?;
    for record in answer["agent_events"].as_array().into_iter().flatten() {
        let mut record = record.clone();
        record["event"] = record["type"].take();
        if let Ok(event) = serde_json::from_value::<Event>(record) {
            printer.event(&event);
        }
    }
    printer.text(text)?;
    let citations = serde_json::from_value(answer["citations"].clone()).unwrap_or_default();
    printer.citations(citations)?;
    Ok(Status::Completed)
}
