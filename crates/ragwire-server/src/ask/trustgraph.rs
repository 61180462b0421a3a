//! Questions to TrustGraph's services: streamed over the WebSocket, or in one piece over HTTP.
//!
//! The messages are TrustGraph's, so this module parses them without a decoder of the crate, except
//! for explanations. The output is the same as for other questions.

use futures_util::{SinkExt, StreamExt};
use ragwire::event::Event;
use ragwire::wire::Decode;
use ragwire::wire::trustgraph::TrustGraphDecoder;
use ragwire::{Citation, Failure, Frame, Status};
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::AskError;
use super::options::Service;
use super::printing::Printer;
use crate::client::{self, JSON, Server};

/// The id of the one request.
const ID: &str = "ask";
/// The error type for a mistake in the request, over HTTP.
const REQUEST_ERROR: &str = "request-error";

/// Builds the `request` member.
fn question(service: &Service, prompt: &str) -> Value {
    let mut question = Map::from_iter([
        ("query".to_owned(), Value::from(prompt)),
        ("collection".to_owned(), "default".into()),
        ("streaming".to_owned(), service.streaming.into()),
    ]);
    if !service.filter.is_null() {
        question.insert("filter".to_owned(), service.filter.clone());
    }
    question.extend(
        service
            .limits
            .iter()
            .map(|limit| (limit.name.clone(), limit.value.into())),
    );
    question.into()
}

/// Prints an answer in one piece.
pub(super) async fn whole(
    server: &Server,
    service: &Service,
    prompt: &str,
    printer: &mut Printer,
) -> Result<Status, AskError> {
    let path = format!("/api/v1/flow/default/service/{}", service.name.as_str());
    let response = server.post(&path, JSON, &question(service, prompt)).await?;
    let answer: Value = client::json(response).await?;
    for event in answer["metadata"]["events"].as_array().into_iter().flatten() {
        print_event(printer, event);
    }
    last(printer, &answer, &answer["error"])
}

/// Prints a streamed answer.
pub(super) async fn stream(
    server: &Server,
    service: &Service,
    prompt: &str,
    printer: &mut Printer,
) -> Result<Status, AskError> {
    let mut socket = server.socket("/api/v1/socket").await?;
    let message = json!({ "id": ID, "service": service.name.as_str(), "flow": "default", "request": question(service, prompt) });
    socket
        .send(Message::text(message.to_string()))
        .await
        .map_err(|_| AskError::Truncated)?;
    while let Some(message) = socket.next().await {
        let Ok(message) = message else { break };
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).map_err(|_| AskError::Message)?;
        if message["id"] != ID {
            // Only one question was sent. The gateway omits the id if it could not read the
            // request.
            return Err(not_served(&message["error"]));
        }
        let response = &message["response"];
        if message["complete"] == true {
            return match response {
                // A refused request has no response.
                Value::Null => Err(not_served(&message["error"])),
                response => last(printer, response, &response["error"]),
            };
        }
        match response["message_type"].as_str() {
            Some("chunk") => printer.text(response["response"].as_str().unwrap_or_default())?,
            Some("explain") => print_explanation(printer, &text),
            Some("event") => print_event(printer, &response["event"]),
            // Later servers may send other types.
            _ => {}
        }
    }
    Err(AskError::Truncated)
}

fn not_served(error: &Value) -> AskError {
    let member = |name: &str, otherwise: &str| error[name].as_str().unwrap_or(otherwise).to_owned();
    AskError::NotServed {
        code: member("type", "unknown"),
        message: member("message", "the server refused the question"),
    }
}

fn print_event(printer: &mut Printer, event: &Value) {
    if let Ok(event) = serde_json::from_value::<Event>(event.clone()) {
        printer.event(&event);
    }
}

/// Prints the edges of an explanation. The decoder removes what only describes the events for
/// TrustGraph's own clients.
fn print_explanation(printer: &mut Printer, message: &str) {
    let mut decoder = TrustGraphDecoder::default();
    decoder.feed(message.as_bytes());
    decoder.feed(b"\n");
    for frame in decoder {
        if let Ok(Frame::Event { event, .. }) = frame {
            printer.event(&event);
        }
    }
}

/// Prints the last message, which has the rest of the text and the citations, and returns the
/// status.
fn last(printer: &mut Printer, response: &Value, error: &Value) -> Result<Status, AskError> {
    let metadata = &response["metadata"];
    if let (Some(message), Some(kind)) = (error["message"].as_str(), error["type"].as_str()) {
        if kind == REQUEST_ERROR {
            return Err(not_served(error));
        }
        let code = metadata["error"]["code"].as_str().unwrap_or(kind).to_owned();
        printer.failure(message)?;
        printer.citations(Vec::new())?;
        return Ok(Status::Failed(Failure::new(code, message.to_owned())));
    }
    printer.text(response["response"].as_str().unwrap_or_default())?;
    let citations: Vec<Citation> = serde_json::from_value(metadata["citations"].clone()).unwrap_or_default();
    printer.citations(citations)?;
    Ok(match metadata["status"].as_str() {
        Some("stopped") => Status::Stopped,
        _ => Status::Completed,
    })
}
