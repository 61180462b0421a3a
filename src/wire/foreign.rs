//! What the decoders of other systems' streams share: thoughts and tool calls that arrive in pieces,
//! reported errors, ends, numbers. The memory is bounded, whatever a stream contains.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::calls::MAX_OPEN_CALLS;
use super::members::{Members, word};
use super::{DecodeError, object};
use crate::event::{Event, Thinking, ToolCall};
use crate::failure::Failure;
use crate::frame::{End, Frame, Status};
use crate::metadata::{CUT_REASONS, FINISH_REASON, Metadata};

/// The code of a failure that a model server reports without a code.
pub(super) const UPSTREAM_FAILED: &str = "upstream_failed";
/// The `kind` of the question for the result of a call that the client has to find.
pub(super) const RESULT: &str = "tool_result";
/// The longest code of a foreign error; anything longer is not a code.
const MAX_CODE_BYTES: usize = 64;

/// Numbers the thoughts of a stream, so that the pieces of one have the same ID.
#[derive(Debug, Default)]
pub(super) struct Thoughts {
    count: u64,
    /// What the source calls the thought, if it does.
    source: String,
    is_open: bool,
}

impl Thoughts {
    /// Returns the next piece of the thought of `source`.
    pub(super) fn piece(&mut self, source: &str, content: &str) -> Thinking {
        if !self.is_open || self.source != source {
            self.count += 1;
            source.clone_into(&mut self.source);
        }
        self.is_open = true;
        Thinking::new(content).id(format!("thought-{}", self.count))
    }

    /// Ends the thought, because something else arrived.
    pub(super) fn close(&mut self) {
        self.is_open = false;
    }
}

/// Tool calls whose arguments arrive in pieces.
#[derive(Debug)]
pub(super) struct PartialCalls {
    calls: Vec<PartialCall>,
    bytes: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    arguments: String,
}

impl PartialCalls {
    /// Creates an empty list of at most [`MAX_OPEN_CALLS`] calls, which have `max_bytes` together.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            calls: Vec::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Adds a piece of the call at `index`. Without an index it belongs to the last call, or to a
    /// new one if it has another ID.
    pub(super) fn push(
        &mut self,
        index: Option<u64>,
        id: &str,
        name: &str,
        arguments: &str,
    ) -> Result<(), DecodeError> {
        let index = index.unwrap_or_else(|| match self.calls.last() {
            Some(last) if id.is_empty() || last.id == id => last.index,
            _ => self
                .calls
                .iter()
                .map(|call| call.index.saturating_add(1))
                .max()
                .unwrap_or_default(),
        });
        let at = self.calls.iter().position(|call| call.index == index);
        let at = at.unwrap_or_else(|| {
            let call = PartialCall::default();
            self.calls.push(PartialCall { index, ..call });
            self.calls.len() - 1
        });
        self.bytes += id.len() + name.len() + arguments.len();
        if self.calls.len() > MAX_OPEN_CALLS || self.bytes > self.max_bytes {
            return Err(DecodeError::LineTooLong);
        }
        let call = &mut self.calls[at];
        if !id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if !name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// Returns the calls, which are now complete.
    pub(super) fn take(&mut self) -> Vec<Event> {
        self.bytes = 0;
        let calls = std::mem::take(&mut self.calls).into_iter();
        calls
            .map(|call| tool_call(&call.id, call.name, &call.arguments))
            .collect()
    }
}

/// The calls whose results the client may have to find, with the question for each, oldest first. At
/// most [`MAX_OPEN_CALLS`].
#[derive(Clone, Debug, Default)]
pub(super) struct ClientCalls(VecDeque<(String, String)>);

/// The longest question that a call is remembered with, in bytes: some sentences.
const MAX_PROMPT_BYTES: usize = 4096;

impl ClientCalls {
    /// Remembers a call. Its question is a member of its input, or names the tool.
    pub(super) fn open(&mut self, id: &str, tool: &str, input: &Value) {
        self.close(id);
        let asked = |name: &&str| word(input.as_object()?, name);
        let asked = ["prompt", "question", "message"].iter().find_map(asked);
        let mut prompt = asked.map_or_else(|| format!("What is the result of {tool}?"), str::to_owned);
        prompt.truncate(prompt.floor_char_boundary(MAX_PROMPT_BYTES));
        self.0.push_back((id.to_owned(), prompt));
        if self.0.len() > MAX_OPEN_CALLS {
            self.0.pop_front();
        }
    }

    /// Forgets a call, which has its result or is decided on elsewhere.
    pub(super) fn close(&mut self, id: &str) {
        self.0.retain(|(open, _)| open != id);
    }

    /// Removes and returns the question for a call.
    pub(super) fn take(&mut self, id: &str) -> Option<String> {
        let at = self.0.iter().position(|(open, _)| open == id)?;
        self.0.remove(at).map(|(_, prompt)| prompt)
    }

    /// Removes and returns all calls with their questions.
    pub(super) fn take_all(&mut self) -> VecDeque<(String, String)> {
        std::mem::take(&mut self.0)
    }
}

/// A complete call with its arguments as JSON text. Text that is not JSON is passed on as a string.
pub(super) fn tool_call(id: &str, name: impl Into<String>, arguments: &str) -> Event {
    let call = ToolCall::new(name, arguments_of(arguments));
    if id.is_empty() { call } else { call.call_id(id) }.into()
}

fn arguments_of(text: &str) -> Value {
    if text.trim().is_empty() {
        return json!({});
    }
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// The event of our own extension member, if there is one.
pub(super) fn own_event(extension: &mut Members) -> Result<Option<Frame>, DecodeError> {
    match extension.shift_remove("event") {
        Some(Value::Object(event)) => object::read_event(event).map(Some).ok_or(DecodeError::BadEvent),
        Some(_) => Err(DecodeError::BadEvent),
        None => Ok(None),
    }
}

/// The metadata of our own extension member, with the end of the turn.
pub(super) fn own_end(extension: Members) -> Result<(Vec<Frame>, End), DecodeError> {
    object::read_end(extension).ok_or(DecodeError::BadTrailer)
}

/// Returns `true` for our trailer: our encoders always write both lists.
pub(super) fn is_trailer(members: &Members) -> bool {
    let is_list = |name: &str| members.get(name).is_some_and(Value::is_array);
    is_list("citations") && is_list("tools_used")
}

/// The end from the metadata of a stream: our trailer, or else members of another server, for a turn
/// with this `status`. Only our trailer says how the turn ended.
pub(super) fn end(members: Members, status: Status) -> Result<End, DecodeError> {
    if is_trailer(&members) {
        return Ok(own_end(members)?.1);
    }
    let metadata = Metadata {
        extra: members,
        ..Metadata::default()
    };
    Ok(End {
        status,
        metadata,
        timing: None,
    })
}

/// Reads the error that a model server reports: an object with a message and a code or type, or a
/// message alone.
pub(super) fn failure(error: &Value) -> Failure {
    let default = Failure::default();
    let message = match error {
        Value::String(message) => Some(message),
        error => match error.get("message") {
            Some(Value::String(message)) => Some(message),
            _ => None,
        },
    };
    let code = ["code", "type"].iter().find_map(|name| match error.get(name)? {
        Value::String(code) => Some(code.clone()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    });
    let is_code = |code: &String| {
        !code.is_empty() && code.len() <= MAX_CODE_BYTES && !code.chars().any(char::is_control)
    };
    let code = code.filter(is_code).unwrap_or_else(|| UPSTREAM_FAILED.to_owned());
    match message.filter(|message| !message.is_empty()) {
        Some(message) => Failure::new(code, message.clone()),
        None => Failure::new(code, default.message),
    }
}

/// How an answer ended, from the reason that a model server gives.
pub(super) fn end_of(reason: &str, metadata: Metadata) -> End {
    let failed = |code: &'static str, message: String| End::failed(Failure::new(code, message));
    match reason {
        // TGI writes the second and third, Anthropic's compatible servers the fourth.
        "" | "stop" | "eos_token" | "stop_sequence" | "end_turn" | "tool_calls" | "function_call" => {
            End::completed(metadata)
        }
        // The answer is as long as was allowed. It is complete for the protocol, not for its reader.
        _ if CUT_REASONS.contains(&reason) => End::completed(metadata.with(FINISH_REASON, reason)),
        "cancelled" => End {
            status: Status::Stopped,
            metadata,
            timing: None,
        },
        "content_filter" => failed(
            "content_filter",
            "The answer was withheld by a content filter.".to_owned(),
        ),
        // An unknown reason may mean a cut, withheld or missing answer.
        _ => failed(
            UPSTREAM_FAILED,
            "The model server ended the answer early.".to_owned(),
        ),
    }
}

/// A count at `path`; a negative or broken number is ignored rather than losing the answer.
pub(super) fn count(value: &Value, path: &str) -> Option<u64> {
    value.pointer(path)?.as_u64()
}

/// A duration in `path`, in units of which `per_ms` are a millisecond.
pub(super) fn millis(value: &Value, path: &str, per_ms: f64) -> Option<f64> {
    let number = value.pointer(path)?.as_f64()?;
    (number.is_finite() && number >= 0.0).then_some(number / per_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_put_together_and_bounded() {
        let mut calls = PartialCalls::new(40);
        for (index, id, name, arguments) in [
            (Some(1), "b", "two", ""),
            (Some(0), "a", "one", "{\"q\":"),
            (Some(0), "", "", "1}"),
            (None, "c", "three", "not JSON"),
        ] {
            calls.push(index, id, name, arguments).unwrap();
        }
        let expected: [Event; 3] = [
            ToolCall::new("two", json!({})).call_id("b").into(),
            ToolCall::new("one", json!({"q": 1})).call_id("a").into(),
            ToolCall::new("three", "not JSON").call_id("c").into(),
        ];
        assert_eq!(calls.take(), expected);
        assert_eq!(calls.take(), []);

        assert_eq!(
            calls.push(None, "", "", &"x".repeat(41)),
            Err(DecodeError::LineTooLong)
        );
        let mut calls = PartialCalls::new(4096);
        let pushed = (0..=MAX_OPEN_CALLS as u64).map(|index| calls.push(Some(index), "", "t", ""));
        let failed: Vec<bool> = pushed.map(|result| result.is_err()).collect();
        assert_eq!(failed.iter().position(|failed| *failed), Some(MAX_OPEN_CALLS));
    }

    #[test]
    fn errors_of_all_servers_are_read() {
        let default = Failure::default().message;
        for (error, code, message) in [
            (
                json!({"message": "Full.", "type": "server_error", "param": null, "code": "busy"}),
                "busy",
                "Full.",
            ),
            (
                json!({"message": "No.", "type": "BadRequestError", "code": 400}),
                "400",
                "No.",
            ),
            (json!({"message": "No.", "type": "x", "code": null}), "x", "No."),
            (json!("broken"), UPSTREAM_FAILED, "broken"),
            (json!({"code": "a\nb"}), UPSTREAM_FAILED, &default),
            (json!(7), UPSTREAM_FAILED, &default),
        ] {
            let failure = failure(&error);
            assert_eq!((failure.code(), &*failure.message), (code, message), "{error}");
        }
    }

    #[test]
    fn a_piece_without_an_index_belongs_to_the_last_call() {
        let mut calls = PartialCalls::new(1000);
        for (id, name, arguments) in [
            ("a", "one", "{"),
            ("", "", "\"q\":"),
            ("a", "", "1}"),
            ("b", "two", "{}"),
        ] {
            calls.push(None, id, name, arguments).unwrap();
        }
        let expected: [Event; 2] = [
            ToolCall::new("one", json!({"q": 1})).call_id("a").into(),
            ToolCall::new("two", json!({})).call_id("b").into(),
        ];
        assert_eq!(calls.take(), expected);
    }

    #[test]
    fn names_and_ids_of_calls_have_a_part_of_the_limit() {
        let push = |max_bytes: usize| PartialCalls::new(max_bytes).push(None, "abc", "defg", "hijkl");
        assert_eq!((push(12), push(11)), (Ok(()), Err(DecodeError::LineTooLong)));
    }

    #[test]
    fn of_more_than_64_client_calls_the_oldest_is_forgotten() {
        for (count, oldest) in [(MAX_OPEN_CALLS, "0"), (MAX_OPEN_CALLS + 1, "1")] {
            let mut calls = ClientCalls::default();
            for id in 0..count {
                calls.open(&id.to_string(), "t", &Value::Null);
            }
            let ids: Vec<String> = calls.take_all().into_iter().map(|(id, _)| id).collect();
            assert_eq!((ids.len(), ids[0].as_str()), (MAX_OPEN_CALLS, oldest));
        }
    }

    #[test]
    fn metadata_is_our_trailer_only_with_both_of_its_lists() {
        for (members, is_ours) in [
            (json!({"citations": [], "tools_used": []}), true),
            (json!({"citations": []}), false),
            (json!({"tools_used": []}), false),
            (json!({"citations": [], "tools_used": 1}), false),
        ] {
            assert_eq!(is_trailer(members.as_object().unwrap()), is_ours, "{members}");
        }
    }

    #[test]
    fn a_code_is_neither_empty_nor_long_nor_more_than_a_line() {
        let (longest, longer) = ("x".repeat(MAX_CODE_BYTES), "x".repeat(MAX_CODE_BYTES + 1));
        for (code, expected) in [
            ("busy", "busy"),
            (&longest, &longest),
            (&longer, UPSTREAM_FAILED),
            ("", UPSTREAM_FAILED),
            ("a\tb", UPSTREAM_FAILED),
        ] {
            assert_eq!(failure(&json!({"code": code})).code(), expected);
        }
    }

    #[test]
    fn the_reason_of_an_end_is_its_status() {
        for (reason, status) in [
            ("stop", "completed"),
            ("length", "completed"),
            ("cancelled", "stopped"),
            ("content_filter", "failed"),
            ("other", "failed"),
        ] {
            let end = end_of(reason, Metadata::default());
            assert_eq!(end.status.as_str(), status, "{reason}");
        }
    }

    #[test]
    fn a_negative_duration_is_none() {
        for (value, expected) in [(json!(3), Some(1.5)), (json!(0), Some(0.0)), (json!(-1), None)] {
            assert_eq!(millis(&json!({"ms": value}), "/ms", 2.0), expected, "{value}");
        }
    }
}
