//! Runs `tests/vectors/{framed,sse,ndjson}` through the decoder, cut at every byte, and through the
//! encoder. `tests/vectors/README.md` describes the schema; the JavaScript runner does the same
//! with the same files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::written::{frame, shown};
use bytes::BytesMut;
use ragwire::wire::framed::FramedDecoder;
use ragwire::wire::ndjson::NdjsonDecoder;
use ragwire::wire::sse::SseDecoder;
use ragwire::wire::{Decode, Finish, Limits, Wire};
use ragwire::{Frame, Framed, Ndjson, Phase, Sse};
use serde::Deserialize;
use serde_json::{Value, json};

/// Every stream is cut at every byte, so vectors must be short.
const MAX_BYTES: usize = 4096;

/// A wire under test. [`KINDS`] lists for each its folder, the least number of vectors, and the
/// prefix and number of its rules.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Framed,
    Sse,
    Ndjson,
}

const KINDS: [(Kind, &str, usize, &str, usize); 3] = [
    (Kind::Framed, "framed", 100, "F-", 20),
    (Kind::Sse, "sse", 25, "S-", 10),
    (Kind::Ndjson, "ndjson", 25, "N-", 10),
];

trait Reader: Decode {
    fn phase(&self) -> Phase;
}

impl Reader for FramedDecoder {
    fn phase(&self) -> Phase {
        self.phase()
    }
}

impl Reader for SseDecoder {
    fn phase(&self) -> Phase {
        self.phase()
    }
}

impl Reader for NdjsonDecoder {
    fn phase(&self) -> Phase {
        self.phase()
    }
}

/// A wire with the limits of one vector.
struct Tested {
    kind: Kind,
    limits: Limits,
}

impl Tested {
    fn wire(&self) -> Box<dyn Wire> {
        match self.kind {
            Kind::Framed => Box::new(Framed::default().limits(self.limits)),
            Kind::Sse => Box::new(Sse::default().limits(self.limits)),
            Kind::Ndjson => Box::new(Ndjson::default().limits(self.limits)),
        }
    }

    fn decoder(&self) -> Box<dyn Reader> {
        match self.kind {
            Kind::Framed => Box::new(Framed::default().limits(self.limits).decoder()),
            Kind::Sse => Box::new(Sse::default().limits(self.limits).decoder()),
            Kind::Ndjson => Box::new(Ndjson::default().limits(self.limits).decoder()),
        }
    }

    /// Whether a reader skips a line that begins with this byte after the end.
    fn may_follow(&self, byte: u8) -> bool {
        self.kind == Kind::Sse && b"\n\r:".contains(&byte)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    why: String,
    covers: Vec<String>,
    bytes: Option<String>,
    bytes_hex: Option<String>,
    #[serde(default)]
    limits: VectorLimits,
    frames: Vec<Value>,
    finish: String,
    #[serde(default)]
    encode: bool,
    encode_from: Option<Vec<Value>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorLimits {
    max_line_bytes: Option<usize>,
    max_trailer_bytes: Option<usize>,
}

impl Vector {
    fn bytes(&self) -> Vec<u8> {
        match (&self.bytes, &self.bytes_hex) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(hex)) => (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect(),
            _ => panic!("{}: a vector has either bytes or bytes_hex", self.id),
        }
    }

    fn tested(&self, kind: Kind) -> Tested {
        let mut limits = Limits::default();
        if let Some(bytes) = self.limits.max_line_bytes {
            limits = limits.max_line_bytes(bytes);
        }
        if let Some(bytes) = self.limits.max_trailer_bytes {
            limits = limits.max_trailer_bytes(bytes);
        }
        Tested { kind, limits }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(root().join("tests/vectors").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn load(file: &Path) -> Vector {
    serde_json::from_slice(&std::fs::read(file).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The result of decoding, in the form of a vector: adjacent texts are merged if the wire merges
/// them.
#[derive(Debug, PartialEq)]
struct Decoded {
    frames: Vec<Value>,
    finish: String,
}

/// Takes the frames that are ready. Errors are skipped here, because `finish` returns them again.
fn take(decoder: &mut dyn Reader, merge: bool, frames: &mut Vec<Value>) {
    for frame in decoder.flatten() {
        add(frames, merge, &frame);
    }
}

fn decode<'a>(wire: &Tested, chunks: impl IntoIterator<Item = &'a [u8]>) -> Decoded {
    let (mut decoder, mut frames, merge) = (wire.decoder(), Vec::new(), wire.kind == Kind::Framed);
    for chunk in chunks {
        decoder.feed(chunk);
        take(&mut *decoder, merge, &mut frames);
    }
    let finish = match decoder.finish() {
        Finish::Complete => "complete".into(),
        Finish::Truncated { phase } => format!("truncated:{}", phase.as_str()),
        Finish::Invalid(error) => format!("error:{}", error.code()),
    };
    take(&mut *decoder, merge, &mut frames);
    Decoded { frames, finish }
}

fn add(frames: &mut Vec<Value>, merge: bool, frame: &Frame) {
    if let Frame::Text(text) = frame {
        assert_ne!(text, "", "an empty text is not a frame");
        if let Some(Value::String(last)) = frames.last_mut().and_then(|last| last.get_mut("text"))
            && merge
        {
            last.push_str(text);
            return;
        }
    }
    frames.push(shown(frame));
}

fn encode(wire: &Tested, frames: &[Value]) -> String {
    let (mut encoder, mut out) = (wire.wire().encoder(), BytesMut::new());
    for json in frames {
        encoder.encode(&frame(json), &mut out).unwrap();
    }
    String::from_utf8(out.to_vec()).unwrap()
}

fn text_of(frames: &[Value]) -> String {
    frames.iter().filter_map(|frame| frame["text"].as_str()).collect()
}

/// Runs one vector.
fn check(wire: Kind, vector: &Vector) {
    let (bytes, wire, id) = (vector.bytes(), vector.tested(wire), &vector.id);
    assert!(bytes.len() <= MAX_BYTES, "{id} is too long to be cut everywhere");
    assert_ne!(vector.why, "");
    let (kind, prefix) = (
        id.split('_').next().unwrap(),
        vector.finish.split(':').next().unwrap(),
    );
    assert!(
        [("ok", "complete"), ("bad", "error"), ("cut", "truncated")].contains(&(kind, prefix)),
        "{id}: {}",
        vector.finish
    );

    let expected = Decoded {
        frames: vector.frames.clone(),
        finish: vector.finish.clone(),
    };
    assert_eq!(decode(&wire, [&bytes[..]]), expected, "{id}, whole");
    assert_eq!(decode(&wire, bytes.chunks(1)), expected, "{id}, byte by byte");
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(decode(&wire, [first, b"", second]), expected, "{id}, cut at {at}");
    }

    if kind == "ok" {
        // Any byte may follow an unfinished comment.
        let any = bytes.last() == Some(&b':');
        for byte in 0..=u8::MAX {
            let may_follow = any || wire.may_follow(byte);
            let expected = Decoded {
                finish: if may_follow {
                    "complete"
                } else {
                    "error:trailing_bytes"
                }
                .into(),
                frames: vector.frames.clone(),
            };
            let longer = [&bytes[..], &[byte]].concat();
            assert_eq!(decode(&wire, [&longer[..]]), expected, "{id} and {byte:#x}");
            assert_eq!(
                decode(&wire, [&bytes[..], &[byte]]),
                expected,
                "{id}, then {byte:#x}"
            );
        }
        let is_complete = |at: &usize| decode(&wire, [&bytes[..*at]]).finish == "complete";
        let complete = (0..=bytes.len()).find(is_complete).unwrap();
        assert!(wire.kind == Kind::Sse || complete == bytes.len(), "{id}");
        assert!(
            complete == bytes.len() || wire.may_follow(bytes[complete]),
            "{id}"
        );
        for at in 0..complete {
            check_prefix(vector, &wire, &bytes[..at]);
        }
    }
    if vector.encode {
        assert_eq!(
            encode(&wire, &vector.frames),
            vector.bytes.as_deref().unwrap(),
            "{id}"
        );
    }
    if let Some(frames) = &vector.encode_from {
        assert_eq!(encode(&wire, frames), vector.bytes.as_deref().unwrap(), "{id}");
    }
}

/// Checks that a decoder that got only the first bytes reports truncation, and has returned nothing
/// but events and text that the whole stream returns too.
fn check_prefix(vector: &Vector, wire: &Tested, prefix: &[u8]) {
    let context = || format!("{}, the first {} bytes", vector.id, prefix.len());
    let (mut decoder, mut shown, merge) = (wire.decoder(), Vec::new(), wire.kind == Kind::Framed);
    decoder.feed(prefix);
    take(&mut *decoder, merge, &mut shown);
    let text = text_of(&shown);
    assert!(text_of(&vector.frames).starts_with(&text), "{}", context());
    let is_event = |frame: &&Value| frame.get("event").is_some();
    let events: Vec<_> = shown.iter().filter(is_event).collect();
    let of_all: Vec<_> = vector.frames.iter().filter(is_event).take(events.len()).collect();
    assert_eq!(events, of_all, "{}", context());
    if merge {
        assert_eq!(
            shown.len(),
            events.len() + usize::from(!text.is_empty()),
            "{}",
            context()
        );
    } else {
        assert!(shown.len() < vector.frames.len(), "{}", context());
        assert_eq!(shown, vector.frames[..shown.len()], "{}", context());
    }

    let phase = decoder.phase();
    assert_eq!(decoder.finish(), Finish::Truncated { phase }, "{}", context());
    let mut rest = Vec::new();
    take(&mut *decoder, merge, &mut rest);
    assert!(
        rest.is_empty() || rest == [json!({"text": "\u{fffd}"})],
        "{}",
        context()
    );
}

#[test]
fn all_vectors() {
    for (kind, folder, at_least, ..) in KINDS {
        let files = files(folder);
        let mut run = 0;
        let mut failed = Vec::new();
        for file in &files {
            let vector = load(file);
            assert_eq!(
                Some(vector.id.as_str()),
                file.file_stem().and_then(|stem| stem.to_str())
            );
            match std::panic::catch_unwind(|| check(kind, &vector)) {
                Ok(()) => run += 1,
                Err(_) => failed.push(vector.id),
            }
        }
        assert_eq!(failed, [""; 0], "these vectors failed; the reasons are above");
        assert_eq!(run, files.len());
        assert!(run > at_least, "only {run} vectors of {folder} were found");
        println!("{folder} vectors: {run}");
    }
}

#[test]
fn every_rule_is_covered() {
    let protocol = std::fs::read_to_string(root().join("PROTOCOL.md")).unwrap();
    for (_, folder, _, prefix, number) in KINDS {
        let rules: Vec<(&str, &str)> = protocol
            .lines()
            .filter_map(|line| line.strip_prefix("**[")?.split_once("]**"))
            .filter(|(name, _)| name.starts_with(prefix))
            .collect();
        let names: Vec<_> = (1..=number)
            .map(|number| format!("{prefix}{number:02}"))
            .collect();
        assert_eq!(
            rules.iter().map(|rule| rule.0).collect::<Vec<_>>(),
            names,
            "numbered in order"
        );

        let covered: BTreeSet<String> = files(folder).iter().flat_map(|file| load(file).covers).collect();
        let elsewhere: Vec<_> = rules
            .iter()
            .filter(|(_, rule)| rule.contains("(covered by `tests/turn/sockets.rs`)"))
            .map(|(name, _)| (*name).to_owned())
            .collect();
        let uncovered: Vec<_> = names
            .iter()
            .filter(|name| !covered.contains(*name))
            .cloned()
            .collect();
        assert_eq!(uncovered, elsewhere);
        let unknown: Vec<_> = covered.iter().filter(|name| !names.contains(name)).collect();
        assert!(unknown.is_empty(), "{unknown:?} are not rules");
    }
}
