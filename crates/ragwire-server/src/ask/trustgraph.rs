//! A question to one of TrustGraph's services: as it comes over the socket, or in one piece over HTTP.
//!
//! The messages are TrustGraph's, so they are read as what they are, not by a decoder of ours. What is printed is the same as elsewhere.

use futures_util::{SinkExt, StreamExt};
use ragwire::event::{Event, GraphExplanation, Triple};
use ragwire::{Citation, Failure, Status};
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::{self, Message};

use super::options::Service;
use super::printing::Printer;
use super::{AskError, request};

/// The id of the one request.
const ID: &str = "ask";
/// The type of an error that is the request's own fault, over HTTP.
const REQUEST_ERROR: &str = "request-error";
/// HTTP's port.
const PORT: u16 = 80;

/// The `request` of TrustGraph's.
fn question(service: &Service, prompt: &str) -> Value {
    let mut question = Map::from_iter([
        ("query".to_owned(), Value::from(prompt)),
        ("collection".to_owned(), "default".into()),
        ("streaming".to_owned(), service.streaming.into()),
    ]);
    question.extend(
        service
            .limits
            .iter()
            .map(|limit| (limit.name.clone(), limit.value.into())),
    );
    question.into()
}

/// The answer in one piece.
pub(super) async fn whole(server: &str, service: &Service, prompt: &str) -> Result<Status, AskError> {
    let base = request::base(server)?;
    let uri = format!("{base}/api/v1/flow/default/service/{}", service.name.as_str());
    let request = request::post(server, &uri, request::JSON, &question(service, prompt))?;
    let answer = super::json(super::send(request, server).await?).await?;
    let mut printer = Printer::default();
    for event in answer["metadata"]["events"].as_array().into_iter().flatten() {
        print_event(&mut printer, event);
    }
    last(&mut printer, &answer, &answer["error"])
}

/// The answer as it comes.
pub(super) async fn stream(server: &str, service: &Service, prompt: &str) -> Result<Status, AskError> {
    let base = request::base(server)?;
    let authority = base.trim_start_matches("http://");
    let uri: http::Uri = base
        .parse()
        .map_err(|_| AskError::Usage(format!("{server} is no address")))?;
    let unreachable = |reason: String| AskError::Unreachable {
        server: server.to_owned(),
        reason,
    };
    // An address of IPv6 stands in brackets, which a name to look up has not.
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let connection = TcpStream::connect((host, uri.port_u16().unwrap_or(PORT))).await;
    let connection = connection.map_err(|error| unreachable(error.to_string()))?;
    let (mut socket, _) = client_async(format!("ws://{authority}/api/v1/socket"), connection)
        .await
        .map_err(|error| match error {
            tungstenite::Error::Http(response) => refused(&response),
            other => unreachable(other.to_string()),
        })?;
    let asked = json!({ "id": ID, "service": service.name.as_str(), "flow": "default", "request": question(service, prompt) });
    socket
        .send(Message::text(asked.to_string()))
        .await
        .map_err(|_| AskError::Truncated)?;
    let mut printer = Printer::default();
    while let Some(message) = socket.next().await {
        let Ok(message) = message else { break };
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).map_err(|_| AskError::Message)?;
        if message["id"] != ID {
            // Nothing else was asked; the gateway says so of what it could not read.
            return Err(not_served(&message["error"]));
        }
        let response = &message["response"];
        if message["complete"] == true {
            return match response {
                // A request that was refused has no response.
                Value::Null => Err(not_served(&message["error"])),
                response => last(&mut printer, response, &response["error"]),
            };
        }
        match response["message_type"].as_str() {
            Some("chunk") => printer.text(response["response"].as_str().unwrap_or_default())?,
            Some("explain") => printer.event(&explanation(response).into()),
            Some("event") => print_event(&mut printer, &response["event"]),
            // Others may come with a later server.
            _ => {}
        }
    }
    Err(AskError::Truncated)
}

fn refused(response: &http::Response<Option<Vec<u8>>>) -> AskError {
    let body = response.body().as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let member = |name: &str, otherwise: &str| body["error"][name].as_str().unwrap_or(otherwise).to_owned();
    AskError::Refused {
        status: response.status(),
        code: member("code", "unknown"),
        message: member("message", "the server refused the socket"),
    }
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

/// An explanation as the event that it was.
fn explanation(response: &Value) -> GraphExplanation {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let term = |term: &Value| text(term.get("i").or_else(|| term.get("v")).unwrap_or(&Value::Null));
    let triples = response["explain_triples"].as_array().into_iter().flatten();
    let triples =
        triples.map(|triple| Triple::new(term(&triple["s"]), term(&triple["p"]), term(&triple["o"])));
    GraphExplanation::new(
        text(&response["explain_id"]),
        text(&response["explain_graph"]),
        triples.collect(),
    )
}

/// The last message: what is left of the text, the citations, and how it ended.
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
