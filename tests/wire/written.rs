//! Reads the frames of a vector; `tests/vectors/README.md` describes the schema.

use ragwire::{End, Event, Failure, Frame, Metadata, Snapshot, Status, Timestamp, Timing};
use serde_json::Value;

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
