//! What the decoders make of streams of other servers that are not worth a vector: one rule of a
//! decoder at a time, in the words of that server.

mod ag_ui;
mod ai_sdk;
mod eve;
mod forge;
mod langgraph_messages;
mod langgraph_state;
mod responses;
mod trustgraph;

use ragwire::wire::{Decode, Finish};
use serde_json::{Value, json};

use crate::written::shown;

/// A stream of server-sent events with names.
fn named_events(events: &[(&str, Value)]) -> String {
    events
        .iter()
        .map(|(name, data)| format!("event: {name}\ndata: {data}\n\n"))
        .collect()
}

/// A stream of server-sent events without names.
fn data_events(events: &[Value]) -> String {
    events.iter().map(|data| format!("data: {data}\n\n")).collect()
}

/// A stream of objects, one on each line.
fn lines(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("{object}\n")).collect()
}

/// Decodes a whole stream: the frames as vectors describe them, and how it finished.
fn read(decoder: &mut dyn Decode, stream: &str) -> (Vec<Value>, String) {
    decoder.feed(stream.as_bytes());
    let mut frames: Vec<Value> = decoder.flatten().map(|frame| shown(&frame)).collect();
    let finish = match decoder.finish() {
        Finish::Complete => "complete".into(),
        Finish::Truncated { phase } => format!("truncated:{}", phase.as_str()),
        Finish::Invalid(error) => format!("error:{}", error.code()),
    };
    frames.extend(decoder.flatten().map(|frame| shown(&frame)));
    (frames, finish)
}

fn text(text: &str) -> Value {
    json!({ "text": text })
}

fn event(name: &str, mut members: Value) -> Value {
    members["event"] = name.into();
    json!({ "event": members })
}

/// The end of a stream that says nothing more about it.
fn end(status: &str) -> Value {
    json!({ "end": { "status": status, "metadata": { "citations": [], "tools_used": [] } } })
}
