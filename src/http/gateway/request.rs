//! Parses the text messages of a client, within the limits.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::auth::Token;
use super::frames::Refusal;
use super::{Call, GatewayLimits};

/// A message of the client.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The client authenticates; `None` if the message has no token.
    Auth(Option<Token>),
    /// The client cancels this ID.
    Cancel(String),
    /// A request for a service.
    Request(Request),
    /// An invalid message, with its ID if that is usable.
    Refused(Option<String>, Refusal),
}

/// A request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: String,
    pub(super) service: String,
    pub(super) streaming: bool,
    pub(super) call: Call,
}

/// Reads one text message.
pub(super) fn read(text: &str, limits: &GatewayLimits) -> Incoming {
    let Ok(mut message) = serde_json::from_str::<Map<String, Value>>(text) else {
        return Incoming::Refused(None, Refusal::BadMessage("The message is not a JSON object."));
    };
    match message.get("type").and_then(Value::as_str) {
        Some("auth") => {
            let token = match message.remove("token") {
                Some(Value::String(token)) if !token.is_empty() => Some(Token::new(token)),
                _ => None,
            };
            return Incoming::Auth(token);
        }
        Some("cancel") => {
            return match id(&mut message, limits) {
                Some(id) => Incoming::Cancel(id),
                None => Incoming::Refused(None, Refusal::BadId),
            };
        }
        _ => {}
    }
    let Some(id) = id(&mut message, limits) else {
        return Incoming::Refused(None, Refusal::BadId);
    };
    match request(&mut message) {
        Ok((service, call)) => {
            let streaming = match call.request.get("streaming") {
                Some(Value::Bool(streaming)) => *streaming,
                None | Some(Value::Null) => false,
                Some(_) => {
                    let refusal = Refusal::BadMessage("`streaming` is not a boolean.");
                    return Incoming::Refused(Some(id), refusal);
                }
            };
            Incoming::Request(Request {
                id,
                service,
                streaming,
                call,
            })
        }
        Err(refusal) => Incoming::Refused(Some(id), refusal),
    }
}

/// Takes the ID if it is usable: a string that is neither empty nor too long.
fn id(message: &mut Map<String, Value>, limits: &GatewayLimits) -> Option<String> {
    match message.remove("id") {
        Some(Value::String(id)) if !id.is_empty() && id.len() <= limits.max_id_bytes => Some(id),
        _ => None,
    }
}

fn request(message: &mut Map<String, Value>) -> Result<(String, Call), Refusal> {
    let Some(Value::Object(request)) = message.remove("request") else {
        return Err(Refusal::BadMessage("`request` is not an object."));
    };
    let service = text(message, "service", "`service` is not a string.")?.unwrap_or_default();
    let call = Call {
        flow: text(message, "flow", "`flow` is not a string.")?,
        workspace: text(message, "workspace", "`workspace` is not a string.")?,
        request,
        identity: None,
        extensions: Arc::default(),
    };
    Ok((service, call))
}

fn text(
    message: &mut Map<String, Value>,
    name: &str,
    message_if_wrong: &'static str,
) -> Result<Option<String>, Refusal> {
    match message.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::BadMessage(message_if_wrong)),
    }
}
