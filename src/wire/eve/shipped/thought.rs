//! Thoughts in version 16: the pieces of one thought are one part of a message.

use bytes::BytesMut;
use serde_json::{Map, Value, json};

use super::Shipped;
use super::data::add_others;
use crate::event::{Event, Thinking};
use crate::time::Timestamp;
use crate::wire::EncodeError;
use crate::wire::eve::line::{data, others};

/// A thought that was begun with an ID, so that further pieces may follow.
#[derive(Clone, Debug)]
pub(super) struct OpenThought {
    id: String,
    /// At most `max_message_bytes`, or one piece: each line repeats it.
    so_far: String,
    /// The step that contains it.
    step: u64,
    /// Whether that step is its own, within the step of the answer.
    aside: bool,
    /// The members of its first piece that Eve does not have.
    others: Map<String, Value>,
}

impl Shipped {
    /// Returns `true` if `piece` continues the open thought in the same part.
    pub(super) fn continues(&self, piece: &Thinking) -> bool {
        self.thought.as_ref().is_some_and(|thought| {
            piece.id.as_ref() == Some(&thought.id)
                && thought.so_far.len() + piece.content.len() <= self.wire.max_message_bytes
        })
    }

    /// Writes another piece of the open thought. On an error nothing changes.
    pub(super) fn continue_thought(
        &mut self,
        piece: &str,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let Some(mut thought) = self.thought.take() else {
            return Ok(());
        };
        let before = (thought.so_far.len(), self.state.lines);
        thought.so_far.push_str(piece);
        let appended = json!({"reasoningDelta": piece, "reasoningSoFar": thought.so_far});
        let max_bytes = self.wire.limits.max_line_bytes;
        let written = self.write(
            "reasoning.appended",
            appended,
            thought.step,
            timestamp,
            max_bytes,
            out,
        );
        if written.is_ok() {
            self.state.events += 1;
        } else {
            thought.so_far.truncate(before.0);
            self.state.lines = before.1;
        }
        self.thought = Some(thought);
        written
    }

    /// Writes a thought. It stays open if it has an ID.
    pub(super) fn write_thought(
        &mut self,
        content: &str,
        id: Option<&str>,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let max_bytes = self.wire.limits.max_line_bytes;
        // Clients keep one thought for each step, and the step with the answer stays open.
        let aside = self.state.has_thought && !self.so_far.is_empty();
        if self.state.has_thought && !aside {
            self.next_step("other", timestamp, out);
        }
        let mut step = self.state.step;
        if aside {
            step = self.state.steps;
            self.state.steps += 1;
            self.write("step.started", Map::new(), step, timestamp, max_bytes, out)?;
        } else {
            self.state.has_thought = true;
        }
        let appended = json!({"reasoningDelta": content, "reasoningSoFar": content});
        self.write("reasoning.appended", appended, step, timestamp, max_bytes, out)?;
        let thought = OpenThought {
            id: id.unwrap_or_default().to_owned(),
            so_far: content.to_owned(),
            step,
            aside,
            others: others(event, &["content"])?,
        };
        if id.is_some() {
            self.thought = Some(thought);
            return Ok(());
        }
        self.complete_thought(thought, max_bytes, timestamp, out)
    }

    /// Completes the open thought, if there is one.
    pub(super) fn end_thought(&mut self, timestamp: Option<Timestamp>, out: &mut BytesMut) {
        if let Some(thought) = self.thought.take() {
            let written = self.complete_thought(thought, usize::MAX, timestamp, out);
            debug_assert!(written.is_ok(), "{written:?}");
        }
    }

    fn complete_thought(
        &mut self,
        thought: OpenThought,
        max_bytes: usize,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let mut completed = data([("reasoning", Some(Value::String(thought.so_far)))]);
        add_others(&mut completed, thought.others);
        self.write(
            "reasoning.completed",
            completed,
            thought.step,
            timestamp,
            max_bytes,
            out,
        )?;
        if thought.aside {
            let other = json!({"finishReason": "other"});
            return self.write("step.completed", other, thought.step, timestamp, max_bytes, out);
        }
        Ok(())
    }
}
