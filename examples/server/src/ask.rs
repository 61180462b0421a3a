//! The client `ask`: steps to stderr and text to stdout as they come, and an exit status that says how the turn ended.
//!
//! It reads the stream with the crate's own decoder, so it also shows how a client is written in Rust.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Read, Write};
use std::process::ExitCode;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use ragwire::event::{Event, Source};
use ragwire::wire::framed::FramedDecoder;
use ragwire::wire::{Decode, DecodeError, Finish};
use ragwire::{Citation, End, Frame, Framed, Status};
use serde_json::{Value, json};

use crate::cli::settings::Settings;

/// Where the server listens unless told otherwise.
const PATH: &str = "/v1/rag/sessions";
/// Largest answer that is not streamed, and largest error: 16 MiB.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Longest question read from stdin.
const MAX_PROMPT_BYTES: u64 = 1 << 20;

/// How it ended, as the status of the process. 0 is a completed turn.
const FAILED: u8 = 1;
const REFUSED: u8 = 2;
const STOPPED: u8 = 3;
const TRUNCATED: u8 = 4;

/// The flags of `ask`.
#[derive(Debug, clap::Args)]
pub struct AskOptions {
    /// The question; `-` or nothing reads it from stdin
    prompt: Vec<String>,
    #[command(flatten)]
    flags: AskFlags,
}

/// The flags that may also stand in the environment.
#[derive(Debug, Default, clap::Args)]
pub struct AskFlags {
    /// The server's address [default: http://127.0.0.1:8787]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The session that the question belongs to [default: cli]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// How much thought it is worth: none, low, medium, high, xhigh
    #[arg(long, value_name = "EFFORT")]
    effort: Option<String>,
    /// Have the evidence judged before it is used
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    review: Option<bool>,
    /// Wait for the whole answer
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL", hide_possible_values = true, value_parser = clap::builder::BoolishValueParser::new())]
    no_streaming: Option<bool>,
}

impl AskOptions {
    /// What no flag says is taken from the environment.
    #[must_use]
    pub fn over(mut self, environment: AskFlags) -> Self {
        let flags = self.flags;
        self.flags = AskFlags {
            server: flags.server.or(environment.server),
            session: flags.session.or(environment.session),
            effort: flags.effort.or(environment.effort),
            review: flags.review.or(environment.review),
            no_streaming: flags.no_streaming.or(environment.no_streaming),
        };
        self
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The question cannot be sent.
    #[error("{0}")]
    Usage(String),
    /// The server was not reached.
    #[error("cannot reach {server}: {reason}")]
    Unreachable {
        /// Its address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The server refused the question.
    #[error("{message} ({status}, {code})")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The server's word for it.
        code: String,
        /// What it says.
        message: String,
    },
    /// The connection broke, or the stream ended before its end.
    #[error("the connection broke off: the answer is not complete")]
    Truncated,
    /// The server does not speak the framed wire.
    #[error("the stream cannot be read: {0}")]
    Stream(#[from] DecodeError),
    /// Stdout is gone, as with `| head`.
    #[error("the answer cannot be printed: {0}")]
    Output(#[from] io::Error),
}

impl AskError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Refused { status, .. } if status.is_server_error() => FAILED,
            Self::Usage(_) | Self::Unreachable { .. } | Self::Refused { .. } | Self::Output(_) => REFUSED,
            Self::Truncated | Self::Stream(_) => TRUNCATED,
        }
    }
}

/// Asks, prints, and says how it ended.
pub async fn run(options: AskOptions) -> ExitCode {
    match ask(options).await {
        Ok(Status::Completed) => ExitCode::SUCCESS,
        Ok(Status::Failed(failure)) => {
            eprintln!(
                "\nthe turn failed: {} ({})",
                clean(&failure.message),
                failure.code
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
    let prompt = prompt(&options.prompt)?;
    let flags = options.flags;
    let streaming = !flags.no_streaming.unwrap_or(false);
    let session = flags.session.unwrap_or_else(|| "cli".to_owned());
    let server = flags
        .server
        .unwrap_or_else(|| format!("http://{}", Settings::default().listen));
    let base = server.trim_end_matches('/');
    if !base.starts_with("http://") {
        return Err(AskError::Usage(format!("{server} does not begin with http://")));
    }
    let route = if streaming { "messages/stream" } else { "messages" };
    let session = percent_encoding::utf8_percent_encode(&session, percent_encoding::NON_ALPHANUMERIC)
        .to_string()
        .replace("%2D", "-")
        .replace("%2E", ".")
        .replace("%5F", "_");
    let uri: Uri = format!("{base}{PATH}/{session}/{route}")
        .parse()
        .map_err(|_| AskError::Usage(format!("{server} is no address")))?;
    let mut body = json!({ "prompt": prompt, "review_enabled": flags.review.unwrap_or(false) });
    if let Some(effort) = flags.effort {
        body["reasoning_effort"] = effort.into();
    }
    let mut request = Request::post(uri).body(Full::new(Bytes::from(body.to_string())));
    if let Ok(request) = &mut request {
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, json);
    }
    let request = request.map_err(|error| AskError::Usage(error.to_string()))?;
    let client = Client::builder(TokioExecutor::new()).build_http();
    let response = client
        .request(request)
        .await
        .map_err(|error| AskError::Unreachable {
            reason: innermost(&error),
            server,
        })?;
    if !response.status().is_success() {
        return Err(refused(response).await);
    }
    if streaming {
        stream(response).await
    } else {
        whole(response).await
    }
}

fn prompt(words: &[String]) -> Result<String, AskError> {
    let prompt = if words.is_empty() || words == ["-"] {
        if io::stdin().is_terminal() {
            return Err(AskError::Usage("no question; write it after `ask`".into()));
        }
        let mut text = String::new();
        io::stdin()
            .lock()
            .take(MAX_PROMPT_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| AskError::Usage(format!("the question cannot be read: {error}")))?;
        text
    } else {
        words.join(" ")
    };
    Ok(prompt.trim().to_owned())
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

/// The answer as it comes.
async fn stream(response: Response<Incoming>) -> Result<Status, AskError> {
    let mut body = response.into_body();
    let mut decoder = Framed::default().decoder();
    let mut printer = Printer::default();
    loop {
        match body.frame().await {
            Some(Ok(frame)) => {
                decoder.feed(frame.data_ref().map_or(&[][..], |data| data));
                if let Some(status) = printer.print_all(&mut decoder)? {
                    return Ok(status);
                }
            }
            // Not `Truncated` at once: what had arrived may still be a character.
            Some(Err(_)) | None => {
                return match decoder.finish() {
                    Finish::Complete => Ok(Status::Completed),
                    Finish::Invalid(error) => Err(error.into()),
                    Finish::Truncated { .. } => match printer.print_all(&mut decoder)? {
                        Some(status) => Ok(status),
                        None => Err(AskError::Truncated),
                    },
                };
            }
        }
    }
}

/// The answer in one piece.
async fn whole(response: Response<Incoming>) -> Result<Status, AskError> {
    let body = Limited::new(response.into_body(), MAX_BODY_BYTES).collect().await;
    let bytes = body.map_err(|_| AskError::Truncated)?.to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).map_err(|_| AskError::Truncated)?;
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

/// Where the passages come from is told by an event; the citations at the end only name them.
#[derive(Debug, Default)]
struct Printer {
    sources: HashMap<String, Source>,
    has_text: bool,
}

impl Printer {
    fn print_all(&mut self, decoder: &mut FramedDecoder) -> Result<Option<Status>, AskError> {
        for frame in decoder.by_ref() {
            match frame? {
                Frame::Event { event, .. } => self.event(&event),
                Frame::Text(text) => self.text(&text)?,
                Frame::End(End { status, metadata, .. }) => {
                    self.citations(metadata.citations)?;
                    return Ok(Some(status));
                }
            }
        }
        Ok(None)
    }

    fn event(&mut self, event: &Event) {
        if let Event::Sources(sources) = event {
            let known = sources.sources.iter();
            self.sources
                .extend(known.map(|source| (source.chunk_id.clone(), source.clone())));
        }
        eprintln!("· {}", clean(&step(event)));
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(clean(text).as_bytes())?;
        self.has_text = true;
        // Each piece is seen when it arrives, also where stdout is a pipe.
        out.flush()
    }

    fn citations(&mut self, citations: Vec<Citation>) -> io::Result<()> {
        if self.has_text {
            let mut out = io::stdout().lock();
            out.write_all(b"\n")?;
            out.flush()?;
        }
        for (index, citation) in citations.into_iter().enumerate() {
            let source = self.sources.get(&citation.chunk_id);
            let title = source.and_then(|source| source.title.clone());
            let mut line = format!("[{}] {}", index + 1, title.unwrap_or(citation.document_id));
            if let Some(page) = citation.page_number {
                line.push_str(&format!(", page {page}"));
            }
            if let Some(heading) = source.and_then(|source| source.heading.as_deref()) {
                line.push_str(&format!(", {heading}"));
            }
            line.push_str(&format!(": \"{}\"", citation.supporting_quote.replace('\n', " ")));
            eprintln!("{}", clean(&line));
        }
        Ok(())
    }
}

/// One step in one line.
fn step(event: &Event) -> String {
    match event {
        Event::Search(search) => {
            let query = search.query.as_deref().unwrap_or_default();
            format!("search ({}): {query}", search.tool)
        }
        Event::Reasoning(reasoning) => reasoning.content.replace('\n', " "),
        Event::Review(review) => {
            let feedback = review.feedback.as_deref().unwrap_or_default();
            format!(
                "review {}: {} {feedback}",
                review.iteration,
                review.verdict.as_str()
            )
        }
        Event::RetrievalResult(result) => format!(
            "{}: {} chunks in {} ms",
            result.tool, result.chunks_found, result.duration_ms
        ),
        Event::RerankResult(result) => format!(
            "{}: {} of {} chunks kept",
            result.method, result.output_count, result.input_count
        ),
        Event::Sources(sources) => format!("{} sources", sources.sources.len()),
        Event::GenerationStart(start) => {
            format!("{} writes from {} chunks", start.model, start.context_chunks)
        }
        event => event.name().replace('_', " "),
    }
}

/// Text of documents and of models must not steer the terminal: control characters are shown as U+FFFD.
fn clean(text: &str) -> String {
    text.replace(
        |letter: char| letter.is_control() && letter != '\n' && letter != '\t',
        "\u{fffd}",
    )
}
