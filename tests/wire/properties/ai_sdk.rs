//! The AI SDK's wire never sends a part that makes a client abort, and never leaves one that it
//! would show as busy forever, however many calls there are.

use std::collections::HashSet;

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::{Reasoning, RetrievalResult, Search, Source, Sources, Thinking, ToolCall, ToolResult};
use ragwire::wire::Wire;
use ragwire::{AiSdk, Frame};
use serde_json::{Value, json};

use crate::generated::end;

/// Turns with more calls than the encoder remembers, with repeated ids and names.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let id = || prop::option::weighted(0.8, (0..90_u32).prop_map(|id| format!("c{id}")));
    let tool = || (0..3_u32).prop_map(|tool| format!("t{tool}").repeat(if tool == 2 { 700 } else { 1 }));
    let event = |event| Frame::Event {
        event,
        timestamp: None,
    };
    let frame = prop_oneof![
        8 => (tool(), id()).prop_map(move |(tool, id)| event(id.into_iter().fold(ToolCall::new(tool, json!({})), ToolCall::call_id).into())),
        2 => (tool(), id()).prop_map(move |(tool, id)| event(id.into_iter().fold(ToolResult::new(tool, "r"), ToolResult::call_id).into())),
        1 => Just(Frame::Text("a".into())),
        1 => Just(event(Reasoning::new("b").into())),
        2 => (0..2_u32).prop_map(move |id| event(Thinking::new("c").id(id.to_string()).into())),
        2 => (0..3_u32).prop_map(move |query| event(Search::new("t").query(query.to_string()).into())),
        1 => Just(event(RetrievalResult::new("t", 1_u32, 2_u64).into())),
        1 => (0..3_u32).prop_map(move |id| event(Sources::new(vec![Source::new("c", id.to_string(), "", Vec::new())]).into())),
    ];
    (vec(frame, 0..160), end()).prop_map(|(mut frames, end)| {
        frames.push(Frame::End(end));
        frames
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_part_is_in_order_and_none_stays_open(frames in frames()) {
        let (mut encoder, mut out) = (AiSdk::default().encoder(), BytesMut::new());
        for frame in &frames {
            encoder.encode(frame, &mut out).unwrap();
        }
        let (mut begun, mut open, mut documents) = (HashSet::new(), HashSet::new(), HashSet::new());
        let lines = std::str::from_utf8(&out).unwrap().split_terminator("\n\n");
        let parts = lines.map(|line| line.strip_prefix("data: ").unwrap());
        for part in parts.filter(|part| *part != "[DONE]") {
            let part: Value = serde_json::from_str(part).unwrap();
            let id = ["id", "toolCallId", "sourceId"].iter().find_map(|name| part.get(name));
            let id = id.and_then(Value::as_str).unwrap_or_default().to_owned();
            let ok = match part["type"].as_str().unwrap() {
                "tool-input-start" => {
                    begun.insert(id);
                    true
                }
                "tool-input-available" => {
                    let is_begun = begun.contains(&id);
                    open.insert(id);
                    is_begun
                }
                "tool-output-available" | "tool-output-error" => open.remove(&id),
                "text-start" | "reasoning-start" => open.insert(id),
                "text-delta" | "reasoning-delta" => open.contains(&id),
                "text-end" | "reasoning-end" => open.remove(&id),
                "source-document" => documents.insert(id),
                _ => true,
            };
            prop_assert!(ok, "{}", part);
        }
        prop_assert_eq!(open, HashSet::new());
    }
}
