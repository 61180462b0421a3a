//! Reads one turn of Eve's wire in either vocabulary: our lines, and those of Eve and flue-eve.

use serde_json::Value;

use super::{Eve, TYPES};
use crate::event::{Custom, Event, InputRequested, InputResolved, Retract, StructuredResult, Thinking};
use crate::failure::{Failure, FailureKind};
use crate::frame::{End, Frame, Status};
use crate::time::Timestamp;
use crate::wire::activity::is_activity;
use crate::wire::calls::ASK;
use crate::wire::decoded::Decoded;
use crate::wire::event_stream::MessageRef;
use crate::wire::members::{self, Members, required, take, take_members, word};
use crate::wire::messages::{Messages, ReadMessage, decoded, decoder};
use crate::wire::{DecodeError, object, typed};

/// The longest line beside the limits: the documented state with an answer of 512 KiB, each byte of
/// which may become six. Published readers refuse 5 MiB.
const MAX_STATE_BYTES: usize = 6 * Eve::MAX_CONTENT_BYTES;

/// Decodes one turn of a session, in either vocabulary, however its bytes were split.
///
/// Feed it the bytes from the turn's first line, then take frames until `next` returns `None`,
/// which means that more bytes are needed; the iterator may return frames again after that. Lines
/// of another turn after the end are [`DecodeError::TrailingBytes`]. It holds one unfinished line,
/// of at most 3 MiB beside the larger of the two limits, and the frames that were not taken yet.
///
/// `PROTOCOL.md`, section "Eve", lists what differs from the turn that was encoded.
///
/// ```
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::{Eve, Frame};
///
/// let mut decoder = Eve::new("s").decoder();
/// decoder.feed(br#"{"type":"message.appended","data":{"messageDelta":"Yes.","messageSoFar":"Yes."}}"#);
/// decoder.feed(b"\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// assert!(matches!(decoder.finish(), Finish::Truncated { .. }));
/// ```
#[derive(Debug)]
pub struct EveDecoder {
    messages: Messages<Turn>,
}

decoder!(EveDecoder);

impl Eve {
    /// Creates a decoder for one turn. It reads both vocabularies.
    pub fn decoder(&self) -> EveDecoder {
        let max_bytes = self.limits.larger().saturating_add(MAX_STATE_BYTES);
        EveDecoder {
            messages: Messages::lines(Turn::default(), max_bytes),
        }
    }
}

type Taken = Result<(), DecodeError>;

/// What the lines so far say about the turn.
#[derive(Debug, Default)]
struct Turn {
    decoded: Decoded,
    /// Whether the first line of a turn was read.
    has_begun: bool,
    /// The step with the last text.
    text_step: u64,
    /// The number of characters of the answer in that step, and in earlier ones.
    in_step: u64,
    earlier: u64,
    /// The last withdrawal, if no text followed it.
    retracted: Option<u64>,
    /// The number of thoughts that were completed, and whether another is open.
    thoughts: u64,
    is_thinking: bool,
    /// Whether the turn has ended, so that `session.waiting` is its last line.
    is_settled: bool,
    is_cancelled: bool,
    failure: Option<Failure>,
}

impl ReadMessage for Turn {
    decoded!();

    fn read(&mut self, message: MessageRef<'_>) -> Taken {
        let mut line = members::parse(message.data)?;
        let Some(Value::String(kind)) = line.shift_remove("type") else {
            return Err(DecodeError::BadEvent);
        };
        let data = match line.shift_remove("data") {
            None | Some(Value::Null) => Members::new(),
            Some(Value::Object(data)) => data,
            Some(_) => return Err(DecodeError::BadEvent),
        };
        let at = line
            .get("meta")
            .and_then(|meta| meta.get("at"))
            .and_then(Value::as_str);
        self.take(&kind, data, at.and_then(Timestamp::parse))
    }

    /// The server may report a failure and not come to the end of the session's turn.
    fn finish(&mut self) -> Taken {
        match self.failure.take() {
            Some(failure) => self.decoded.push(Frame::End(End::failed(failure))),
            None => Ok(()),
        }
    }
}

impl Turn {
    fn take(&mut self, kind: &str, mut data: Members, at: Option<Timestamp>) -> Taken {
        match kind {
            "session.started" | "turn.started" | "agent.start" => self.has_begun = true,
            "turn.completed" | "agent.complete" => (self.is_settled, self.failure) = (true, None),
            "turn.cancelled" => (self.is_settled, self.is_cancelled) = (true, true),
            "turn.failed" => (self.is_settled, self.failure) = (true, Some(read_failure(&data))),
            "session.waiting" | "session.completed" | "session.failed" => return self.take_end(kind, data),
            "message.appended" | "message.completed" => return self.take_message(&data, at),
            "agent.content.delta" => {
                let text = required(&data, "text")?;
                return self.push_text(text);
            }
            "reasoning.appended" => {
                let delta = word(&data, "reasoningDelta").or_else(|| word(&data, "delta"));
                let id = format!("thought-{}", self.thoughts);
                let piece = Thinking::new(delta.ok_or(DecodeError::BadEvent)?).id(id);
                self.is_thinking = true;
                return self.decoded.push_event(piece, at);
            }
            "reasoning.completed" => {
                let streamed = std::mem::take(&mut self.is_thinking);
                self.thoughts += 1;
                if !streamed {
                    let whole = required(&data, "reasoning")?;
                    return self.decoded.push_event(Thinking::new(whole), at);
                }
            }
            "actions.requested" => return self.take_actions(data, at),
            "action.result" => return self.take_result(data, at),
            "agent.tool_call" | "agent.tool_result" => return self.take_documented(kind, data, at),
            "input.requested" => return self.take_question(data, at),
            "input.resolved" => {
                let id = required(&data, "requestId")?;
                let response = data.get("response").cloned();
                return self.decoded.push_event(resolved(id, response), at);
            }
            "authorization.required" | "authorization.granted" | "authorization.completed" => {
                let event = authorization(kind, data).ok_or(DecodeError::BadEvent)?;
                return self.decoded.push_event(event, at);
            }
            "result.completed" => {
                let result = take(&mut data, "result");
                return self.decoded.push_event(StructuredResult::new(result), at);
            }
            "retract" => {
                let event = typed::read(kind, data, &TYPES).ok_or(DecodeError::BadEvent)?;
                return self.take_retract(event, at);
            }
            // The other lines of both vocabularies say nothing that a turn has.
            kind if TYPES.contains(&kind) => {}
            kind => {
                let event = undefined(kind, data).ok_or(DecodeError::BadEvent)?;
                return self.decoded.push_event(event, at);
            }
        }
        Ok(())
    }

    fn push_text(&mut self, text: &str) -> Taken {
        if text.is_empty() {
            return Ok(());
        }
        self.in_step += characters(text);
        self.retracted = None;
        self.decoded.push_text(text)
    }

    /// Reads a piece of the answer, or the answer so far.
    fn take_message(&mut self, data: &Members, at: Option<Timestamp>) -> Taken {
        if word(data, "role") == Some("user") {
            return Ok(());
        }
        let step = data.get("stepIndex").and_then(Value::as_u64);
        if let Some(step) = step.filter(|step| *step != self.text_step) {
            self.earlier += std::mem::take(&mut self.in_step);
            self.text_step = step;
        }
        let so_far = word(data, "messageSoFar");
        if let Some(delta) = word(data, "messageDelta") {
            if let Some(so_far) = so_far {
                let before = characters(so_far).saturating_sub(characters(delta));
                if self.has_begun && before < self.in_step {
                    self.retracted = Some(self.earlier + before);
                    let event = Retract::new(self.earlier + before);
                    self.decoded.push_event(event, at)?;
                }
                self.in_step = before;
            }
            let retracted = self.retracted;
            self.push_text(delta)?;
            if delta.is_empty() {
                self.retracted = retracted;
            }
            return Ok(());
        }
        // The whole answer of the step, or in the documented vocabulary of the turn: a server that
        // does not stream says it only here.
        let (whole, known) = match so_far.or_else(|| word(data, "message")) {
            Some(whole) => (whole, self.in_step),
            None => (
                word(data, "content").unwrap_or_default(),
                self.earlier + self.in_step,
            ),
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        match whole.char_indices().nth(known) {
            Some((from, _)) if self.has_begun || known == 0 => self.push_text(&whole[from..]),
            _ => Ok(()),
        }
    }

    /// Reads our own `retract`, which may only repeat a shorter `messageSoFar`.
    fn take_retract(&mut self, event: Event, at: Option<Timestamp>) -> Taken {
        if let Event::Retract(retract) = &event {
            if self.retracted.take() == Some(retract.kept) {
                return Ok(());
            }
            self.in_step = self.in_step.min(retract.kept.saturating_sub(self.earlier));
            self.earlier = self.earlier.min(retract.kept);
        }
        self.decoded.push_event(event, at)
    }

    fn take_actions(&mut self, mut data: Members, at: Option<Timestamp>) -> Taken {
        let others = take_members(&mut data, "metadata");
        let Some(Value::Array(actions)) = data.shift_remove("actions") else {
            return Err(DecodeError::BadEvent);
        };
        for action in actions {
            let Value::Object(mut action) = action else {
                return Err(DecodeError::BadEvent);
            };
            let name = ["toolName", "subagentName", "remoteAgentName", "kind"]
                .iter()
                .find_map(|name| word(&action, name));
            let tool = name.ok_or(DecodeError::BadEvent)?.to_owned();
            let id = word(&action, "callId").map(str::to_owned);
            if id.as_deref().is_some_and(|id| is_activity(id, &tool)) {
                continue;
            }
            let mut call = others.clone();
            call.insert("tool".into(), tool.into());
            call.insert("input".into(), take(&mut action, "input"));
            call.extend(id.map(|id| ("call_id".to_owned(), id.into())));
            self.push_typed("tool_call", call, at)?;
        }
        Ok(())
    }

    fn take_result(&mut self, mut data: Members, at: Option<Timestamp>) -> Taken {
        let mut call = take_members(&mut data, "metadata");
        let mut result = take_members(&mut data, "result");
        let name = ["toolName", "subagentName", "name", "kind"]
            .iter()
            .find_map(|name| word(&result, name));
        let tool = name.ok_or(DecodeError::BadEvent)?.to_owned();
        let id = word(&result, "callId").map(str::to_owned);
        let output = take(&mut result, "output");
        match &id {
            Some(id) if is_activity(id, &tool) => return Ok(()),
            Some(id) if tool == ASK => return self.decoded.push_event(resolved(id, Some(output)), at),
            _ => {}
        }
        let is_error = word(&data, "status").is_some_and(|status| status != "completed")
            || result.get("isError") == Some(&Value::Bool(true));
        let reason = data.shift_remove("error").filter(|_| output.is_null());
        call.insert("tool".into(), tool.into());
        call.insert("result".into(), reason.unwrap_or(output));
        call.extend(id.map(|id| ("call_id".to_owned(), id.into())));
        if is_error {
            call.insert("is_error".into(), true.into());
        }
        self.push_typed("tool_result", call, at)
    }

    fn take_documented(&mut self, kind: &str, mut data: Members, at: Option<Timestamp>) -> Taken {
        let mut tool = take_members(&mut data, "tool");
        let name = required(&tool, "name")?.to_owned();
        let id = data.shift_remove("toolCallId");
        if id
            .as_ref()
            .and_then(Value::as_str)
            .is_some_and(|id| is_activity(id, &name))
        {
            return Ok(());
        }
        data.extend(id.map(|id| ("call_id".to_owned(), id)));
        data.insert("tool".into(), name.into());
        if kind == "agent.tool_call" {
            let arguments = take(&mut data, "args");
            data.insert("input".into(), arguments);
            for name in ["description", "parameters"] {
                data.extend(tool.shift_remove_entry(name));
            }
            return self.push_typed("tool_call", data, at);
        }
        if let Some(Value::Bool(true)) = data.shift_remove("isError") {
            data.insert("is_error".into(), true.into());
        }
        self.push_typed("tool_result", data, at)
    }

    fn push_typed(&mut self, name: &str, members: Members, at: Option<Timestamp>) -> Taken {
        let event = typed::read(name, members, &TYPES).ok_or(DecodeError::BadEvent)?;
        self.decoded.push_event(event, at)
    }

    fn take_question(&mut self, mut data: Members, at: Option<Timestamp>) -> Taken {
        let kind = take_members(&mut data, "metadata");
        let Some(Value::Array(requests)) = data.shift_remove("requests") else {
            let kind = word(&data, "type").unwrap_or("text");
            let question = question(&data, "requestId", kind, read_options(&data));
            return self.decoded.push_event(question, at);
        };
        for request in requests {
            let Value::Object(request) = request else {
                continue;
            };
            let by_display = || match word(&request, "display") {
                Some("confirmation") => "approval",
                Some("select") => "choice",
                _ => "text",
            };
            let kind = word(&kind, "kind").unwrap_or_else(by_display);
            let question = question(&request, "requestId", kind, read_options(&request));
            self.decoded.push_event(question, at)?;
        }
        Ok(())
    }

    /// Reads the last line of a turn, or that of a turn that waits for a human.
    fn take_end(&mut self, kind: &str, mut data: Members) -> Taken {
        let metadata = data.shift_remove("metadata");
        let is_failed = kind == "session.failed";
        if metadata.is_none() && kind == "session.waiting" && !self.is_settled {
            return Ok(());
        }
        let (_, mut end) = match metadata {
            None => object::read_end(Members::new()),
            Some(Value::Object(metadata)) => object::read_end(metadata),
            Some(_) => None,
        }
        .ok_or(DecodeError::BadTrailer)?;
        if end.status == Status::Completed {
            let failure = self.failure.take();
            end.status = match (is_failed, failure) {
                (true, _) => Status::Failed(read_failure(&data)),
                (false, Some(failure)) => Status::Failed(failure),
                (false, None) if self.is_cancelled => Status::Stopped,
                (false, None) => Status::Completed,
            };
        }
        self.decoded.push(Frame::End(end))
    }
}

fn characters(text: &str) -> u64 {
    text.chars().count() as u64
}

fn read_failure(data: &Members) -> Failure {
    let message = word(data, "message").or_else(|| word(data, "error"));
    let default = Failure::default();
    let kind = word(data, "code").map_or(default.kind, |code| FailureKind::from(code.to_owned()));
    Failure::new(
        kind,
        message.map_or(default.message, |message| message.to_owned().into()),
    )
}

/// An event that Eve does not define.
fn undefined(kind: &str, data: Members) -> Option<Event> {
    if Event::NAMES.contains(&kind) {
        return typed::read(kind, data, &TYPES);
    }
    let name = typed::own_name(kind, &TYPES).to_owned();
    let data = Value::Object(data);
    Some(Event::Custom(Custom { name, data }))
}

/// The options of a question: words, or objects with an ID.
fn read_options(request: &Members) -> Option<Vec<String>> {
    let options = request.get("options")?.as_array()?.iter();
    let options = options.filter_map(|option| option.as_str().or_else(|| option.get("id")?.as_str()));
    Some(options.map(str::to_owned).collect())
}

fn question(request: &Members, id: &str, kind: &str, options: Option<Vec<String>>) -> Event {
    let (id, prompt) = (word(request, id), word(request, "prompt"));
    let question = InputRequested::new(id.unwrap_or_default(), kind, prompt.unwrap_or_default());
    match options {
        Some(options) => question.options(options).into(),
        None => question.into(),
    }
}

fn resolved(id: &str, response: Option<Value>) -> Event {
    let resolved = InputResolved::new(id);
    match response.filter(|response| !response.is_null()) {
        Some(response) => resolved.response(response).into(),
        None => resolved.into(),
    }
}

fn authorization(kind: &str, mut data: Members) -> Option<Event> {
    // The first two are the documented names of a connection and of its page.
    if let Some(name) = data.shift_remove("name") {
        data.insert("connection".into(), name);
    }
    let url = data
        .shift_remove("authUrl")
        .or_else(|| take_members(&mut data, "authorization").shift_remove("url"));
    data.extend(url.map(|url| ("auth_url".to_owned(), url)));
    if kind == "authorization.granted" {
        data.insert("outcome".into(), "authorized".into());
    }
    for position in ["sequence", "stepIndex", "turnId", "webhookUrl"] {
        data.shift_remove(position);
    }
    let name = if kind == "authorization.required" {
        "authorization_required"
    } else {
        "authorization_completed"
    };
    typed::read(name, data, &TYPES)
}
