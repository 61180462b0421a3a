//! Reads and writes the frames of a vector; `tests/vectors/README.md` describes the schema.

use ragwire::{End, Event, Failure, Frame, Metadata, Snapshot, Status, Timestamp, Timing};
use serde_json::{Map, Value, json};

/// The frame that a vector describes.
pub(crate) fn frame(json: &Value) -> Frame {
    if let Some(text) = json.get("text") {
        Frame::Text(text.as_str().unwrap().into())
    } else if let Some(json) = json.get("event") {
        let (event, timestamp) = event(json);
        Frame::Event { event, timestamp }
    } else if let Some(json) = json.get("snapshot") {
        let events = json["events"].as_array().unwrap().iter().map(event);
        let snapshot = Snapshot::new(json["frames"].as_u64().unwrap())
            .events(events.collect())
            .text(json["text"].as_str().unwrap())
            .events_dropped(
                json.get("events_dropped")
                    .map_or(0, |count| count.as_u64().unwrap()),
            );
        Frame::Snapshot(Box::new(snapshot))
    } else {
        Frame::End(end(&json["end"]))
    }
}

fn event(json: &Value) -> (Event, Option<Timestamp>) {
    let mut members = json.as_object().unwrap().clone();
    let timestamp = members
        .shift_remove("timestamp")
        .map(|timestamp| Timestamp::parse(timestamp.as_str().unwrap()).unwrap());
    let event: Event = serde_json::from_value(members.into()).unwrap();
    let is_custom = matches!(event, Event::Custom(_));
    assert_ne!(
        is_custom,
        Event::NAMES.contains(&event.name()),
        "{json} has the wrong shape"
    );
    (event, timestamp)
}

fn end(json: &Value) -> End {
    let mut extra = json["metadata"].as_object().unwrap().clone();
    let mut take = |name: &str| extra.shift_remove(name).unwrap_or_default();
    let citations = serde_json::from_value(take("citations")).unwrap();
    let mut metadata = Metadata::default().citations(citations);
    metadata.tools_used = serde_json::from_value(take("tools_used")).unwrap();
    metadata.mode = serde_json::from_value(take("mode")).unwrap();
    metadata.usage = serde_json::from_value(take("usage")).unwrap();
    metadata.queue_stats = serde_json::from_value(take("queue_stats")).unwrap();
    metadata.events_dropped = take("events_dropped").as_u64().unwrap_or_default();
    metadata.truncated = take("truncated").as_bool().unwrap_or_default();
    metadata.extra = extra;
    let status = match json["status"].as_str().unwrap() {
        "completed" => Status::Completed,
        "stopped" => Status::Stopped,
        "failed" => {
            let word = |name: &str| json["error"][name].as_str().unwrap().to_owned();
            let failure = Failure::new(word("code"), word("message"));
            let recoverable = json["error"]["recoverable"].as_bool().unwrap();
            Status::Failed(if recoverable { failure } else { failure.permanent() })
        }
        status => panic!("unknown status: {status}"),
    };
    let timing = json.get("timing").map(|timing| Timing {
        timestamp: Timestamp::parse(timing["timestamp"].as_str().unwrap()).unwrap(),
        elapsed_ms: timing["elapsed_ms"].as_u64().unwrap(),
    });
    End {
        status,
        metadata,
        timing,
    }
}

/// A frame as a vector describes it.
pub(crate) fn shown(frame: &Frame) -> Value {
    match frame {
        Frame::Event { event, timestamp } => json!({ "event": event_json(event, *timestamp) }),
        Frame::End(end) => json!({ "end": end_json(end) }),
        Frame::Snapshot(snapshot) => json!({ "snapshot": snapshot_json(snapshot) }),
        Frame::Text(text) => json!({ "text": text }),
    }
}

fn snapshot_json(snapshot: &Snapshot) -> Value {
    let events = snapshot.events.iter();
    let events: Vec<_> = events
        .map(|(event, timestamp)| event_json(event, *timestamp))
        .collect();
    let mut json = json!({ "frames": snapshot.frames, "events": events, "text": snapshot.text });
    if snapshot.events_dropped > 0 {
        json["events_dropped"] = snapshot.events_dropped.into();
    }
    json
}

fn event_json(event: &Event, timestamp: Option<Timestamp>) -> Value {
    let mut json = match event {
        // An event with a known name and another shape: PROTOCOL.md allows both ways to hand it on.
        Event::Custom(custom) if Event::NAMES.contains(&custom.name()) => {
            let mut members = custom.data.clone();
            members["event"] = custom.name().into();
            members
        }
        event => serde_json::to_value(event).unwrap(),
    };
    if let Some(timestamp) = timestamp {
        json["timestamp"] = timestamp.to_string().into();
    }
    json
}

fn end_json(end: &End) -> Value {
    let metadata = &end.metadata;
    let mut members = Map::new();
    members.insert("citations".into(), json!(metadata.citations));
    members.insert("tools_used".into(), json!(metadata.tools_used));
    for (name, value) in [
        ("mode", json!(metadata.mode)),
        ("usage", json!(metadata.usage)),
        ("queue_stats", json!(metadata.queue_stats)),
    ] {
        if !value.is_null() {
            members.insert(name.into(), value);
        }
    }
    if metadata.events_dropped > 0 {
        members.insert("events_dropped".into(), metadata.events_dropped.into());
    }
    if metadata.truncated {
        members.insert("truncated".into(), true.into());
    }
    for (name, value) in &metadata.extra {
        assert!(!members.contains_key(name), "{name} twice");
        members.insert(name.clone(), value.clone());
    }
    let mut json = json!({ "status": end.status.as_str(), "metadata": members });
    if let Status::Failed(failure) = &end.status {
        json["error"] = json!(failure);
    }
    if let Some(timing) = end.timing {
        json["timing"] = json!({ "timestamp": timing.timestamp, "elapsed_ms": timing.elapsed_ms });
    }
    json
}
