//! No content changes the framing of any wire: a turn made of hostile strings gives the same
//! records, frame by frame, as the same turn made of plain words. Every record is read by a minimal
//! reader of its framing that uses nothing of this crate.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;
use ragwire::event::Custom;
use ragwire::wire::openai::{OnFailure, Progress};
use ragwire::wire::sse::EventStream;
use ragwire::wire::{Encoder, Limits, Wire};
use ragwire::{
    AgUi, AiSdk, Citation, End, Eve, Event, Failure, Forge, Frame, Framed, Metadata, Ndjson, Ollama, OpenAi,
    Responses, SessionChat, Sse, Status, Timestamp, TrustGraph,
};
use serde_json::{Value, json};

use super::streams::check_lines;
use crate::generated::string;

// ---- the wires ----

/// Reads the bytes of one frame and returns the kinds of its records.
type Reader = Box<dyn FnMut(&[u8]) -> Vec<String>>;

struct Tested {
    wire: Box<dyn Wire>,
    reader: fn() -> Reader,
    /// Kinds of terminal records: every stream has exactly one, as its last record.
    terminals: &'static [&'static str],
}

fn tested(wire: impl Wire + 'static, reader: fn() -> Reader, terminals: &'static [&'static str]) -> Tested {
    let wire = Box::new(wire);
    Tested {
        wire,
        reader,
        terminals,
    }
}

/// Every wire, set up with `words` for its strings. To add a wire, add a line here.
fn wires(words: &[String], limits: Limits) -> Vec<Tested> {
    let word = |at: usize| words[at % words.len()].clone();
    let openai = || OpenAi::new(word(0), 0, word(1)).limits(limits).with_usage();
    let session = json!({"id": word(0), "messages": [{"content": word(1)}], word(2): word(3)});
    let session = session.as_object().unwrap().clone();
    let eve = || Eve::new(word(0)).message(word(1)).limits(limits);
    let graph = || TrustGraph::graph_rag(word(0)).limits(limits);
    vec![
        tested(Framed::default().limits(limits), framed_reader, &["trailer"]),
        tested(Sse::default().limits(limits), sse_reader, &["event,data:end"]),
        tested(Ndjson::default().limits(limits), ndjson_reader, &["end"]),
        tested(Forge::default().limits(limits), sse_reader, &["event,data:done"]),
        tested(
            SessionChat::default().limits(limits),
            sse_reader,
            &["data:complete", "data:error"],
        ),
        tested(
            SessionChat::default().limits(limits).session(session),
            sse_reader,
            &["data:complete", "data:error"],
        ),
        tested(
            AiSdk::default().limits(limits).message_id(word(0)),
            sse_reader,
            &["data:[DONE]"],
        ),
        tested(
            AgUi::new(word(0), word(1)).limits(limits),
            sse_reader,
            &["data:RUN_FINISHED", "data:RUN_ERROR"],
        ),
        tested(openai(), sse_reader, &["data:[DONE]"]),
        tested(
            openai().progress(Progress::Comment).on_failure(OnFailure::Text),
            sse_reader,
            &["data:[DONE]"],
        ),
        tested(openai().progress(Progress::None), sse_reader, &["data:[DONE]"]),
        tested(
            openai().progress(Progress::Extension),
            sse_reader,
            &["data:[DONE]"],
        ),
        tested(
            Responses::new(word(0), 0, word(1)).limits(limits),
            sse_reader,
            &[
                "event,data:response.completed",
                "event,data:response.failed",
                "event,data:response.incomplete",
            ],
        ),
        tested(
            Ollama::new(word(0), Timestamp::from_micros(0)).limits(limits),
            ollama_reader,
            &["done", "error"],
        ),
        tested(eve(), ndjson_reader, &["session.waiting", "session.failed"]),
        tested(
            eve().documented(),
            ndjson_reader,
            &["session.waiting", "session.failed"],
        ),
        tested(graph().streaming(true), trustgraph_reader, &["complete"]),
        tested(graph(), trustgraph_reader, &["complete"]),
        tested(
            TrustGraph::document_rag(word(0)).limits(limits).streaming(true),
            trustgraph_reader,
            &["complete"],
        ),
        tested(
            graph().specified().streaming(true),
            trustgraph_reader,
            &["complete"],
        ),
    ]
}

// ---- minimal readers of each framing ----

fn object(json: &str) -> Value {
    check_lines(json.as_bytes());
    let value: Value = serde_json::from_str(json).unwrap();
    assert!(value.is_object(), "{json}");
    value
}

/// The kind of a record, by the words that its wire defines; all words of the application are one
/// kind.
fn kind(object: &Value) -> String {
    let known = |name: &str| !name.starts_with("custom") && !name.starts_with("own");
    match object["type"].as_str() {
        Some(name) => match name.strip_prefix("data-") {
            Some(name) if known(name) => format!("data-{name}"),
            Some(_) => "data-own".into(),
            None if known(name) => name.into(),
            None => "own".into(),
        },
        None => {
            let has = |member: &&str| object.get(member).is_some();
            let own = ["event", "text", "end"].into_iter().find(has);
            let parts = ["choices", "error", "ragwire"].into_iter().filter(has);
            own.map_or_else(|| parts.collect::<Vec<_>>().join("+"), String::from)
        }
    }
}

/// JSON lines: one object on each line; empty lines are keep-alives.
fn ndjson_reader() -> Reader {
    Box::new(|chunk| {
        let text = std::str::from_utf8(chunk).unwrap();
        let lines = text.split_terminator('\n').filter(|line| !line.is_empty());
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        lines.map(|line| kind(&object(line))).collect()
    })
}

/// JSON lines without a type: Ollama's objects, one on each line.
fn ollama_reader() -> Reader {
    Box::new(|chunk| {
        let text = std::str::from_utf8(chunk).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        let kind = |line| {
            let object = object(line);
            let message = &object["message"];
            let kind = match object["done"].as_bool() {
                Some(true) => "done",
                Some(false) if message.get("thinking").is_some() => "thinking",
                // A keep-alive has neither text nor event.
                Some(false) if message["content"] == "" && object.get("ragwire").is_none() => return None,
                Some(false) => "message",
                None => "error",
            };
            Some(kind.to_owned())
        };
        text.split_terminator('\n').filter_map(kind).collect()
    })
}

/// JSON lines without a type: TrustGraph's messages, one on each line.
fn trustgraph_reader() -> Reader {
    Box::new(|chunk| {
        let text = std::str::from_utf8(chunk).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        let kind = |line| {
            let message = object(line);
            let of_response = message["response"]["message_type"].as_str().unwrap_or("message");
            match message["complete"].as_bool() {
                Some(true) => "complete".into(),
                _ => of_response.to_owned(),
            }
        };
        text.split_terminator('\n').map(kind).collect()
    })
}

/// Server-sent events in the subset of the standard's grammar that we write: LF only, one line a
/// field.
fn sse_reader() -> Reader {
    Box::new(|chunk| {
        let text = std::str::from_utf8(chunk).unwrap();
        assert!(text.is_empty() || text.ends_with("\n\n"), "{text:?}");
        let blocks = text.split_terminator("\n\n");
        blocks.filter_map(sse_block).collect()
    })
}

fn sse_block(block: &str) -> Option<String> {
    let (mut names, mut kinds) = (Vec::new(), Vec::new());
    for line in block.split('\n') {
        check_lines(line.as_bytes());
        let (name, value) = line.split_once(": ").expect("a field or a comment");
        match (name, value) {
            ("", "keep-alive") => return None,
            ("", json) => return Some(format!("comment:{}", kind(&object(json)))),
            ("data", "[DONE]") => kinds.push("[DONE]".into()),
            ("data", json) => kinds.push(kind(&object(json))),
            ("event", _) => {}
            ("id" | "retry", digits) => {
                assert!(digits.bytes().all(|byte| byte.is_ascii_digit()));
                continue;
            }
            _ => panic!("{line:?} is no field of ours"),
        }
        names.push(name);
    }
    assert_eq!(kinds.len(), 1, "{block:?}");
    Some(format!("{}:{}", names.join(","), kinds[0]))
}

/// Lines, 0x1D, text, 0x1E, one object.
fn framed_reader() -> Reader {
    let mut in_text = false;
    Box::new(move |chunk| {
        let chunk = std::str::from_utf8(chunk).unwrap();
        let (mut kinds, mut rest) = (Vec::new(), chunk);
        if !in_text {
            let (lines, text) = chunk.split_once('\u{1d}').unwrap_or((chunk, ""));
            assert!(lines.is_empty() || lines.ends_with('\n'), "{lines:?}");
            let lines = lines.split_terminator('\n').filter(|line| !line.is_empty());
            kinds.extend(lines.map(|line| kind(&object(line))));
            (in_text, rest) = (chunk.contains('\u{1d}'), text);
        }
        let (text, trailer) = match rest.split_once('\u{1e}') {
            Some((text, trailer)) => (text, Some(trailer)),
            None => (rest, None),
        };
        assert!(!text.contains(['\u{1d}', '\u{1e}']));
        kinds.extend((!text.is_empty()).then(|| "text".into()));
        kinds.extend(trailer.map(|trailer| {
            object(trailer);
            "trailer".into()
        }));
        kinds
    })
}

// ---- turns as templates ----

/// Every event of the vocabulary with `$N` for each free string.
const EVENTS: &str = r#"[
    {"event":"search","tool":"$0","query":"$1","page":1},
    {"event":"reasoning","content":"$0"},
    {"event":"review","iteration":1,"verdict":"approved","feedback":"$0"},
    {"event":"query_analysis","query":"$0","complexity":"simple","decomposed":false,"estimated_mode":"direct",
        "judge":"$1"},
    {"event":"cache_hit","original_query":"$0","cached_at":"$1"},
    {"event":"cache_miss"},
    {"event":"retrieval_start","tool":"$0","query":"$1","iteration":1},
    {"event":"retrieval_result","tool":"$0","chunks_found":1,"duration_ms":2},
    {"event":"tool_call","tool":"$0","input":{"$1":["$2"]},"call_id":"$3","description":"$1","parameters":{"$0":"$2"}},
    {"event":"tool_call","tool":"$0","input":"$1"},
    {"event":"tool_result","tool":"$0","result":{"$1":"$2"},"call_id":"$3"},
    {"event":"tool_result","tool":"$0","result":"$1","is_error":true},
    {"event":"crag_evaluation","correct":1,"ambiguous":0,"incorrect":0,"action":"proceed","expanded":0,
        "details":[{"chunk_id":"$0","score":0.5,"classification":"CORRECT","expanded":false,"new_score":0.5}],"judge":"$1"},
    {"event":"rerank_result","method":"$0","input_count":2,"output_count":1,"duration_ms":1},
    {"event":"generation_start","context_chunks":1,"total_context_tokens":2,"model":"$0"},
    {"event":"round_start","round":1,"max_rounds":2},
    {"event":"generating","round":1,"max_rounds":2},
    {"event":"thinking","content":"$0","round":1},
    {"event":"thinking","content":"$0","id":"$1"},
    {"event":"retract","kept":0},
    {"event":"verification","claims_checked":1,"claims_supported":1,"claims_partially_supported":0,"claims_unsupported":0,
        "details":[{"claim":"$0","verdict":"SUPPORTED"}],"judge":"$1"},
    {"event":"sources","sources":[
        {"chunk_id":"$0","document_id":"$1","text":"$2","page_numbers":[1],"title":"$3","level":"$0","heading":"$1"},
        {"chunk_id":"$1","document_id":"$2","text":"$0","page_numbers":[]}]},
    {"event":"queued","position":1,"ahead":0,"waited_ms":5},
    {"event":"input_requested","request_id":"$0","kind":"$1","prompt":"$2","options":["$3","$0"]},
    {"event":"input_resolved","request_id":"$0","response":{"$1":"$2"}},
    {"event":"authorization_required","connection":"$0","auth_url":"$1","description":"$2","request_id":"$3"},
    {"event":"authorization_completed","connection":"$0","outcome":"declined","reason":"$1","request_id":"$3"},
    {"event":"structured_result","result":{"$0":["$1",{"$2":"$3"}]}},
    {"event":"graph_explanation","explain_id":"$0","graph":"$1","triples":[{"s":"$2","p":"$3","o":"$0"}]},
    {"event":"own","data":{"$0":"$1"}},
    {"event":"own","data":["$0"]},
    {"event":"own.$0","data":"$1"}
]"#;

/// The value with each `$N`, also in member names, replaced by word N + `shift`.
fn fill(value: &Value, words: &[String], shift: usize) -> Value {
    let fill_string = |text: &str| match text.split_once('$') {
        Some((before, at)) => {
            format!(
                "{before}{}",
                words[(at.parse::<usize>().unwrap() + shift) % words.len()]
            )
        }
        None => text.to_owned(),
    };
    match value {
        Value::String(text) => fill_string(text).into(),
        Value::Array(items) => items.iter().map(|item| fill(item, words, shift)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (fill_string(name), fill(value, words, shift)))
            .collect(),
        other => other.clone(),
    }
}

/// A turn with numbers instead of its strings.
#[derive(Clone, Debug)]
struct Shape {
    /// The index of an event in [`EVENTS`], or of a text if it is larger, and the first word to
    /// use.
    frames: Vec<(usize, usize)>,
    /// Completed, stopped or failed.
    status: u8,
    citations: usize,
}

fn templates() -> Vec<Value> {
    serde_json::from_str(EVENTS).unwrap()
}

fn shape() -> impl Strategy<Value = Shape> {
    let events = templates().len();
    (vec((0..events + 8, 0..4_usize), 0..10), 0..3_u8, 0..3_usize).prop_map(|(frames, status, citations)| {
        Shape {
            frames,
            status,
            citations,
        }
    })
}

impl Shape {
    fn turn(&self, words: &[String]) -> Vec<Frame> {
        let templates = templates();
        let word = |at: usize| words[at % words.len()].clone();
        let frames = self
            .frames
            .iter()
            .map(|(which, shift)| match templates.get(*which) {
                None => Frame::Text(word(*shift)),
                Some(template) => {
                    let event: Event = serde_json::from_value(fill(template, words, *shift)).unwrap();
                    let own = template["event"].as_str().unwrap().starts_with("own");
                    assert_eq!(
                        matches!(event, Event::Custom(_)),
                        own,
                        "{template} has the wrong shape"
                    );
                    Frame::Event {
                        event,
                        timestamp: None,
                    }
                }
            });
        let citation =
            |at| Citation::new(word(at), word(at + 1), word(at + 2), word(at + 3)).heading(word(at));
        let mut metadata = Metadata::default()
            .citations((0..self.citations).map(citation).collect())
            .tools_used([word(0), word(1)])
            .mode(word(2))
            .with(word(3), json!({word(0): word(1)}));
        metadata.usage = Some(
            ragwire::Usage::new()
                .input_tokens(1u64)
                .output_tokens(2u64)
                .model(word(0)),
        );
        let status = match self.status {
            0 => Status::Completed,
            1 => Status::Stopped,
            _ => Status::Failed(Failure::new(word(0), word(1))),
        };
        let end = End {
            status,
            metadata,
            timing: None,
        };
        frames.chain([Frame::End(end)]).collect()
    }
}

/// Words that wires use themselves, and a string that only looks like an escape.
const RESERVED: [&str; 11] = [
    "done",
    "end",
    "error",
    "text",
    "complete",
    "[DONE]",
    "finish",
    "message",
    "RUN_FINISHED",
    "null",
    "\\ud800",
];

/// Hostile words, none empty and no two equal, as in the plain turn: encoders treat absent and
/// equal words specially.
fn hostile() -> impl Strategy<Value = Vec<String>> {
    // The longest words that ten frames can have before a wire's memory bound changes its output.
    let long = (string(), 1..400_usize).prop_map(|(text, times)| {
        let mut text = text.repeat(times);
        text.truncate(text.floor_char_boundary(1500));
        text
    });
    let word = prop_oneof![
        8 => string(),
        1 => long,
        1 => prop::sample::select(&RESERVED[..]).prop_map(String::from),
    ];
    vec(word, 4).prop_filter("four words", |words| {
        let mut sorted = words.clone();
        sorted.sort();
        sorted.dedup();
        sorted.len() == 4 && !sorted[0].is_empty()
    })
}

fn plain() -> Vec<String> {
    ["north", "south", "east", "west"].map(String::from).to_vec()
}

// ---- the properties ----

/// The kinds of the records of each frame. Every chunk is read by itself, so each must end where a
/// record ends. `None` for a refused frame, which writes nothing.
fn read(
    tested: &Tested,
    frames: &[Frame],
    refused: &mut dyn FnMut(&str, &Frame),
) -> Vec<Option<Vec<String>>> {
    let (mut encoder, mut reader) = (tested.wire.encoder(), (tested.reader)());
    let (mut all, mut records) = (BytesMut::new(), Vec::new());
    for frame in frames {
        let mut filler = BytesMut::new();
        encoder.keep_alive(&mut filler);
        assert!(reader(&filler).is_empty(), "a keep-alive is not a record");
        let before = BytesMut::from(&b"before"[..]);
        let mut chunk = before.clone();
        records.push(match encoder.encode(frame, &mut chunk) {
            Ok(()) => Some(reader(&chunk[before.len()..])),
            Err(error) => {
                assert_eq!(chunk, before, "a refused frame writes nothing");
                refused(error.code(), frame);
                None
            }
        });
        all.extend_from_slice(&filler);
        all.extend_from_slice(&chunk[before.len()..]);
    }
    check_terminal(tested, &mut encoder, &records);
    if tested.wire.content_type().starts_with("text/event-stream") {
        // A reader of server-sent events gets as many events, each with one line of data.
        let mut stream = EventStream::new(all.len());
        stream.feed(&all);
        let messages = stream.inspect(|message| assert!(!message.as_ref().unwrap().data.contains('\n')));
        let kinds = records.iter().flatten().flatten();
        assert_eq!(
            messages.count(),
            kinds.filter(|kind| !kind.starts_with("comment")).count()
        );
    }
    records
}

fn check_terminal(tested: &Tested, encoder: &mut Encoder, records: &[Option<Vec<String>>]) {
    let kinds: Vec<&str> = records.iter().flatten().flatten().map(String::as_str).collect();
    let is_terminal = |kind: &&str| tested.terminals.contains(kind);
    assert_eq!(
        kinds.iter().position(is_terminal),
        Some(kinds.len() - 1),
        "{kinds:?}"
    );
    let mut late = BytesMut::new();
    encoder.text("late", &mut late).unwrap_err();
    encoder.end(&End::default(), &mut late).unwrap_err();
    encoder.keep_alive(&mut late);
    assert!(late.is_empty(), "nothing follows the end");
}

#[test]
fn every_event_is_among_the_templates() {
    let templates = templates();
    let mut names: Vec<&str> = templates
        .iter()
        .map(|template| template["event"].as_str().unwrap())
        .collect();
    names.dedup();
    names.retain(|name| !name.starts_with("own"));
    assert_eq!(names, Event::NAMES);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_content_changes_the_framing(shape in shape(), words in hostile()) {
        let limits = Limits::default().max_line_bytes(1 << 24).max_trailer_bytes(1 << 24);
        let (hostile, plain) = (shape.turn(&words), shape.turn(&plain()));
        for (tested, twin) in wires(&words, limits).iter().zip(wires(&self::plain(), limits)) {
            let name = tested.wire.name();
            let records = read(tested, &hostile, &mut |code, frame| {
                // Only server-sent events refuse a name, and only an unchecked one: `Custom::new`
                // accepts none of these.
                let Frame::Event { event: Event::Custom(custom), .. } = frame else { panic!("{frame:?}") };
                assert_eq!((code, name), ("event_name", "sse"));
                assert!(custom.name().contains(char::is_control));
                assert_eq!(Custom::new(custom.name(), &()).unwrap_err().code(), "event_name");
            });
            let expected = read(&twin, &plain, &mut |code, _| panic!("{code}"));
            for (kinds, expected) in records.iter().zip(&expected) {
                if let Some(kinds) = kinds {
                    prop_assert_eq!(kinds, expected.as_ref().unwrap(), "{}", name);
                }
            }
        }
    }

    /// The same with tiny limits: every refusal has one of two codes, and the stream stays whole.
    #[test]
    fn no_limit_changes_the_framing(shape in shape(), words in hostile(), line in 1..400_usize, trailer in 1..400_usize) {
        let limits = Limits::default().max_line_bytes(line).max_trailer_bytes(trailer);
        for tested in wires(&words, limits) {
            read(&tested, &shape.turn(&words), &mut |code, _| {
                assert!(["event_too_large", "event_name"].contains(&code), "{code}");
            });
        }
    }
}
