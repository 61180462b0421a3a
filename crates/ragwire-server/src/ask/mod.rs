//! The client `ask`: steps to stderr and text to stdout as they come, and an exit status that says
//! how the turn ended.
//!
//! It reads ragwire's wires with the decoders of the crate, so it is also an example of a client in
//! Rust.

mod options;
mod printing;
mod request;
mod trustgraph;

use std::io;
use std::process::ExitCode;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ragwire::event::Event;
use ragwire::wire::{Decode, DecodeError};
use ragwire::{End, Frame, Status};
use serde_json::Value;

use options::WireName;
pub use options::{AskFlags, AskOptions};
use printing::{Printer, clean};

/// Largest answer that is not streamed, and largest error: 16 MiB.
const MAX_BODY_BYTES: usize = 16 << 20;

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
    /// The server cannot be reached.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// Its address.
        server: String,
        /// The cause.
        reason: String,
    },
    /// The server refused the question.
    #[error("{message} ({status}, {code})")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The code of the refusal.
        code: String,
        /// The message of the refusal.
        message: String,
    },
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
    fn exit_code(&self) -> u8 {
        match self {
            Self::Refused { status, .. } if status.is_server_error() => FAILED,
            Self::Usage(_)
            | Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::NotServed { .. }
            | Self::Output(_) => REFUSED,
            Self::Truncated | Self::OtherType { .. } | Self::Stream(_) | Self::Message => TRUNCATED,
        }
    }
}

/// Asks the question, prints the answer and returns the exit status.
pub async fn run(options: AskOptions) -> ExitCode {
    match ask(options).await {
        Ok(Status::Completed) => ExitCode::SUCCESS,
        Ok(Status::Failed(failure)) => {
            eprintln!(
                "\nthe turn failed: {} ({})",
                clean(&failure.message),
                failure.code()
            );
            ExitCode::from(FAILED)
        }
        Ok(Status::Stopped) => {
            eprintln!("\nthe turn was stopped");
            ExitCode::from(STOPPED)
        }
        Err(error) => {
            eprintln!("\nerror: {}", clean(&error.to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}

async fn ask(options: AskOptions) -> Result<Status, AskError> {
    let (words, target) = options.settle()?;
    let prompt = request::prompt(&words)?;
    if let Some(service) = &target.service {
        return match service.streaming {
            true => trustgraph::stream(&target.server, service, &prompt).await,
            false => trustgraph::whole(&target.server, service, &prompt).await,
        };
    }
    let response = send(request::request(&prompt, &target)?, &target.server).await?;
    match target.wire {
        Some(wire) => stream(wire, response).await,
        None => whole(response).await,
    }
}

/// Sends a request. Any status except a success is an error.
async fn send(request: Request<Full<Bytes>>, server: &str) -> Result<Response<Incoming>, AskError> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request)
        .await
        .map_err(|error| AskError::Unreachable {
            reason: innermost(&error),
            server: server.to_owned(),
        })?;
    if !response.status().is_success() {
        return Err(refused(response).await);
    }
    Ok(response)
}

/// Reads the JSON of a response in one piece.
async fn json(response: Response<Incoming>) -> Result<Value, AskError> {
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let bytes = body.map_err(|_| AskError::Truncated)?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|_| AskError::Truncated)
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

async fn refused(response: Response<Incoming>) -> AskError {
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let member = |name: &str, otherwise: &str| {
        let value = body["error"][name].as_str();
        value.unwrap_or(otherwise).to_owned()
    };
    AskError::Refused {
        status,
        code: member("code", "unknown"),
        message: member("message", "the server refused the question"),
    }
}

/// Prints a streamed answer.
async fn stream(wire: WireName, response: Response<Incoming>) -> Result<Status, AskError> {
    check_type(wire, response.headers())?;
    let mut body = response.into_body();
    let mut decoder = wire.decoder();
    let mut printer = Printer::default();
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
        if let Some(status) = print_all(wire, &mut *decoder, &mut printer)? {
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
                printer.citations(metadata.citations)?;
                return Ok(Some(status));
            }
        }
    }
    Ok(None)
}

/// Prints an answer in one piece.
async fn whole(response: Response<Incoming>) -> Result<Status, AskError> {
    let answer = json(response).await?;
    let text = answer["answer"].as_str().ok_or(AskError::Truncated)?;
    let mut printer = Printer::default();
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
