//! Reads the events of a run as frames.

use serde_json::Value;

use super::incoming::{Form, Run, Sender};
use super::{INTERRUPT, Interrupt, LangGraph, MARK, MAX_STATE_BYTES};
use crate::failure::Failure;
use crate::frame::{End, Status};
use crate::wire::decoded::{Decoded, is_blank};
use crate::wire::event_stream::MessageRef;
use crate::wire::foreign::UPSTREAM_FAILED;
use crate::wire::members::{Members, word};
use crate::wire::messages::{Messages, ReadMessage, decoder};
use crate::wire::{DecodeError, object};

/// Decodes the stream of one run of any LangGraph service, however its bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished event of at
/// most 8 MiB or the larger of the two limits, the message that is being received, and the frames
/// that were not taken yet.
///
/// A run ends with `end` or `error`. Newer services just close the stream: it is then complete if
/// the last message is a finished answer or the run waits for a human, and truncated otherwise.
///
/// ```
/// use ragwire::wire::{Decode, Finish};
/// use ragwire::{Frame, LangGraph, Phase};
///
/// let mut decoder = LangGraph::new("").decoder();
/// decoder.feed(b"event: messages\r\ndata: [{\"type\":\"AIMessageChunk\",\"id\":\"1\",\"content\":\"Yes\"},{}]\r\n\r\n");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes".into()))));
/// assert_eq!(decoder.finish(), Finish::Truncated { phase: Phase::Text });
/// ```
#[derive(Debug)]
pub struct LangGraphDecoder {
    messages: Messages<Events>,
}

impl LangGraphDecoder {
    pub(super) fn new(wire: &LangGraph) -> Self {
        let limits = wire.limits;
        let events = Events {
            run: Run::new(limits, wire.answer_nodes.clone(), wire.continues),
            has_error: false,
        };
        Self {
            messages: Messages::events(events, limits.larger().max(MAX_STATE_BYTES)),
        }
    }

    /// Returns the questions at which the run ends, as far as they are decoded; at most 64. Each is
    /// also an `input_requested`. The run that continues needs their answers: [`resume`](super::resume).
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.messages.reader().run.interrupts
    }
}

decoder!(LangGraphDecoder);

/// What was read of a stream.
#[derive(Debug)]
struct Events {
    run: Run,
    /// Whether the stream ended with `error`, which `end` may follow.
    has_error: bool,
}

impl ReadMessage for Events {
    fn decoded(&self) -> &Decoded {
        &self.run.decoded
    }

    fn decoded_mut(&mut self) -> &mut Decoded {
        &mut self.run.decoded
    }

    fn read(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        let (kind, namespace) = match message.event.split_once('|') {
            Some((kind, namespace)) => (kind, Some(namespace)),
            None => (message.event, None),
        };
        let is_nested = namespace.is_some();
        match kind {
            "messages" => self.take_message(message, is_nested),
            "messages/partial" => self.take_messages(message, is_nested, Form::SoFar),
            "messages/complete" => self.take_messages(message, is_nested, Form::Whole),
            "updates" => {
                let Value::Object(nodes) = read(message)? else {
                    return Ok(());
                };
                for (node, update) in nodes {
                    if node == INTERRUPT {
                        self.run.take_interrupts(update);
                    } else {
                        self.run.take_update(&node, update, is_nested)?;
                    }
                }
                Ok(())
            }
            "values" if !is_nested => match read(message)? {
                Value::Object(values) => self.run.take_values(values),
                _ => Ok(()),
            },
            "custom" => {
                let value = read(message)?;
                self.run.take_custom(value);
                Ok(())
            }
            "error" => {
                self.has_error = true;
                let Value::Object(error) = read(message)? else {
                    return Err(DecodeError::BadTrailer);
                };
                self.run.end(read_error(error)?);
                Ok(())
            }
            "end" => {
                let end = match read(message)? {
                    Value::Object(members) if members.contains_key("citations") => Some(read_end(members)?),
                    _ => None,
                };
                let end = end.unwrap_or_else(|| self.run.own_end());
                self.run.end(end);
                Ok(())
            }
            // `metadata`, `messages/metadata`, `events`, `debug`, `tasks`, `checkpoints` and those
            // of newer versions.
            _ => Ok(()),
        }
    }

    fn read_after_end(&mut self, message: MessageRef<'_>) -> Result<(), DecodeError> {
        if std::mem::take(&mut self.has_error) && message.event == "end" {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }

    fn finish(&mut self) -> Result<(), DecodeError> {
        if self.run.is_finished() {
            let end = self.run.own_end();
            self.run.end(end);
        }
        Ok(())
    }
}

impl Events {
    fn take_message(&mut self, message: MessageRef<'_>, is_nested: bool) -> Result<(), DecodeError> {
        let Value::Array(tuple) = read(message)? else {
            return Err(DecodeError::BadEvent);
        };
        let mut tuple = tuple.into_iter();
        let Some(Value::Object(content)) = tuple.next() else {
            return Err(DecodeError::BadEvent);
        };
        let source = tuple.next().unwrap_or_default();
        let sender = Sender::new(source["langgraph_node"].as_str(), &source[MARK], is_nested);
        self.run.take_message(content, &sender, Form::Piece)
    }

    fn take_messages(
        &mut self,
        message: MessageRef<'_>,
        is_nested: bool,
        form: Form,
    ) -> Result<(), DecodeError> {
        let Value::Array(messages) = read(message)? else {
            return Err(DecodeError::BadEvent);
        };
        for message in messages {
            let Value::Object(message) = message else {
                return Err(DecodeError::BadEvent);
            };
            let sender = Sender::of(&message, None, is_nested);
            self.run.take_message(message, &sender, form)?;
        }
        Ok(())
    }
}

/// Reads the data of an event; nothing is `null`.
fn read(message: MessageRef<'_>) -> Result<Value, DecodeError> {
    if is_blank(message.data.as_bytes()) {
        return Ok(Value::Null);
    }
    serde_json::from_str(message.data).map_err(|_| DecodeError::BadEvent)
}

fn read_end(members: Members) -> Result<End, DecodeError> {
    match object::read_end(members) {
        Some((_, end)) => Ok(end),
        None => Err(DecodeError::BadTrailer),
    }
}

/// Reads the data of `error`: {error, message}, and our metadata if it is ours.
fn read_error(mut error: Members) -> Result<End, DecodeError> {
    if let Some(Value::Object(members)) = error.shift_remove(MARK) {
        let end = read_end(members)?;
        return match end.status {
            Status::Failed(_) => Ok(end),
            Status::Completed | Status::Stopped => Err(DecodeError::BadTrailer),
        };
    }
    let code = word(&error, "error")
        .or_else(|| word(&error, "name"))
        .filter(|code| is_code(code))
        .unwrap_or(UPSTREAM_FAILED)
        .to_owned();
    let failure = match word(&error, "message") {
        Some(message) => Failure::new(code, message.to_owned()),
        None => Failure::new(code, Failure::default().message),
    };
    Ok(End::failed(failure))
}

/// The longest name of an exception that becomes a code.
const MAX_CODE_BYTES: usize = 64;

fn is_code(word: &str) -> bool {
    (1..=MAX_CODE_BYTES).contains(&word.len())
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}
