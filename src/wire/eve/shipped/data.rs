//! The data of the lines of version 16.

use serde_json::{Map, Value, json};

use crate::event::{AuthorizationCompleted, AuthorizationRequired, InputRequested};
use crate::wire::calls::ASK;
use crate::wire::eve::line::{data, word};

/// Eve's code for an error result that has no code.
const RESULT_FAILED: &str = "ACTION_RESULT_FAILED";

/// The line that ends a turn of a session that continues.
pub(super) fn waiting() -> (&'static str, Map<String, Value>) {
    (
        "session.waiting",
        data([("wait", Some("next-user-message".into()))]),
    )
}

/// Adds the members that Eve does not have under `metadata`.
pub(super) fn add_others(data: &mut Map<String, Value>, others: Map<String, Value>) {
    if !others.is_empty() {
        data.insert("metadata".into(), others.into());
    }
}

/// The arguments of a call, which must be an object.
pub(super) fn object(input: &Value) -> Value {
    match input {
        Value::Null => json!({}),
        Value::Object(_) => input.clone(),
        input => json!({ "input": input }),
    }
}

/// The data of `action.result`, failed if there is an error.
pub(super) fn outcome(
    id: &str,
    tool: &str,
    output: &Value,
    error: Option<(String, String)>,
) -> Map<String, Value> {
    let is_error = error.is_some();
    let result = data([
        ("callId", Some(id.into())),
        ("isError", is_error.then_some(true.into())),
        ("kind", Some("tool-result".into())),
        // The protocol requires an output in every result.
        ("output", Some(output.clone())),
        ("toolName", Some(tool.into())),
    ]);
    data([
        (
            "error",
            error.map(|(code, message)| json!({"code": code, "message": message})),
        ),
        ("result", Some(result.into())),
        (
            "status",
            Some(if is_error { "failed" } else { "completed" }.into()),
        ),
    ])
}

/// The code and the message of an error result.
pub(super) fn error_of(result: &Value) -> (String, String) {
    let word = |name| {
        result
            .get(name)
            .and_then(Value::as_str)
            .filter(|word| !word.is_empty())
    };
    if let (Some(code), Some(message)) = (word("code"), word("message")) {
        return (code.to_owned(), message.to_owned());
    }
    let message = match result {
        Value::Null => "The tool failed.".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (RESULT_FAILED.to_owned(), message)
}

pub(super) fn question(request: &InputRequested) -> Map<String, Value> {
    let id = request.request_id.as_str();
    let display = match request.kind.as_str() {
        "approval" => Some("confirmation"),
        "choice" => Some("select"),
        "text" => Some("text"),
        _ => None,
    };
    let options = request
        .options
        .iter()
        .flatten()
        .map(|option| json!({"id": option, "label": option}));
    let options: Vec<Value> = options.collect();
    let action = json!({
        "callId": id,
        "input": {"prompt": request.prompt},
        "kind": "tool-call",
        "toolName": ASK,
    });
    let question = data([
        ("action", Some(action)),
        ("allowFreeform", options.is_empty().then_some(true.into())),
        ("display", display.map(Value::from)),
        ("options", (!options.is_empty()).then(|| options.into())),
        ("prompt", Some(request.prompt.as_str().into())),
        ("requestId", Some(id.into())),
    ]);
    let mut asked = data([("requests", Some(json!([question])))]);
    add_others(&mut asked, data([("kind", Some(request.kind.as_str().into()))]));
    asked
}

pub(super) fn consent(required: &AuthorizationRequired) -> Map<String, Value> {
    let description = word(required.description.as_ref());
    // The protocol requires a description; this is Eve's own.
    let fallback = || format!("Authorization required for {}", required.connection).into();
    data([
        ("authorization", Some(json!({"url": required.auth_url}))),
        ("description", Some(description.unwrap_or_else(fallback))),
        ("name", Some(required.connection.as_str().into())),
    ])
}

pub(super) fn consented(completed: &AuthorizationCompleted) -> Map<String, Value> {
    data([
        ("name", Some(completed.connection.as_str().into())),
        ("outcome", Some(completed.outcome.as_str().into())),
        ("reason", word(completed.reason.as_ref())),
    ])
}
