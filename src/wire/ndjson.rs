//! JSON lines, `application/x-ndjson`: one object for each frame, with nothing merged or moved.
//!
//! The rules are in `PROTOCOL.md`, section "JSON lines" (`[N-nn]`), the vectors in
//! `tests/vectors/ndjson`.
//!
//! ```
//! use bytes::BytesMut;
//! use ragwire::event::Search;
//! use ragwire::wire::{Decode, Finish, Wire};
//! use ragwire::{End, Frame, Metadata, Ndjson};
//!
//! let frames = [
//!     Frame::Event { event: Search::new("bm25").into(), timestamp: None },
//!     Frame::Text("Yes.".into()),
//!     Frame::End(End::completed(Metadata::default())),
//! ];
//! let (mut encoder, mut bytes) = (Ndjson::default().encoder(), BytesMut::new());
//! for frame in &frames {
//!     encoder.encode(frame, &mut bytes).unwrap();
//! }
//! assert_eq!(
//!     &bytes[..],
//!     br#"{"index":0,"event":"search","tool":"bm25"}
//! {"index":1,"text":"Yes."}
//! {"index":2,"end":"completed","metadata":{"citations":[],"tools_used":[]}}
//! "#
//! );
//!
//! let mut decoder = Ndjson::default().decoder();
//! decoder.feed(&bytes);
//! let decoded: Result<Vec<Frame>, _> = decoder.by_ref().collect();
//! assert_eq!(decoded.unwrap(), frames);
//! assert_eq!(decoder.finish(), Finish::Complete);
//! ```

use std::fmt::Write;

use bytes::BytesMut;
use serde_json::{Map, Value};

use super::decoded::is_blank;
use super::indexed::{self, Received};
use super::lines::{LineEnd, Lines, TooLong};
use super::{Decode, DecodeError, EncodeError, Finish, Limits, Spelling, Wire, object, padding};
use crate::event::Event;
use crate::frame::{End, Frame};
use crate::order::Phase;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;

/// The wire of JSON lines.
///
/// The [module](self) has an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ndjson {
    limits: Limits,
}

impl Ndjson {
    /// The media type.
    pub const CONTENT_TYPE: &'static str = "application/x-ndjson";

    /// Sets the limits for both directions.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Creates a decoder for one stream, or for the rest of one.
    pub fn decoder(&self) -> NdjsonDecoder {
        NdjsonDecoder {
            lines: Lines::new(LineEnd::Lf, self.limits.larger()),
            received: Received::default(),
            requires_index: true,
        }
    }

    /// Creates a decoder for a stream whose frames may lack their `index`, as a program writes it
    /// that does not number its lines. A frame without an index follows the one before it, and an
    /// empty text is ignored.
    ///
    /// ```
    /// use ragwire::wire::{Decode, Finish};
    /// use ragwire::Ndjson;
    ///
    /// let mut decoder = Ndjson::default().lenient_decoder();
    /// decoder.feed(b"{\"text\":\"Yes.\"}\n{\"end\":\"completed\"}\n");
    /// assert_eq!(decoder.by_ref().count(), 2);
    /// assert_eq!(decoder.finish(), Finish::Complete);
    /// ```
    pub fn lenient_decoder(&self) -> NdjsonDecoder {
        NdjsonDecoder {
            requires_index: false,
            ..self.decoder()
        }
    }
}

impl Wire for Ndjson {
    fn name(&self) -> &'static str {
        "ndjson"
    }

    fn content_type(&self) -> &'static str {
        Self::CONTENT_TYPE
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(NdjsonSpelling {
            limits: self.limits,
            index: 0,
        })
    }
}

#[derive(Debug)]
struct NdjsonSpelling {
    limits: Limits,
    /// The index of the next frame.
    index: u64,
}

impl NdjsonSpelling {
    /// Appends `{"index":…` and returns the offset of the brace that begins the rest of the object.
    fn begin(&self, out: &mut BytesMut) -> usize {
        let _ = write!(out, "{{\"index\":{}", self.index);
        out.len()
    }

    /// Joins the object at `brace` to the output of [`Self::begin`], and ends the line.
    fn close(&mut self, brace: usize, out: &mut BytesMut) {
        out[brace] = b',';
        out.extend_from_slice(b"\n");
        self.index += 1;
    }
}

impl Spelling for NdjsonSpelling {
    fn event(
        &mut self,
        _: Phase,
        event: &Event,
        timestamp: Option<Timestamp>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let (from, max_bytes) = (out.len(), self.limits.max_line_bytes);
        let brace = self.begin(out);
        object::write_event(event, timestamp, out)?;
        if out.len() - from > max_bytes {
            return Err(EncodeError::TooLarge { max_bytes });
        }
        self.close(brace, out);
        Ok(())
    }

    fn text(&mut self, _: Phase, text: &str, out: &mut BytesMut) {
        let (from, max_bytes) = (out.len(), self.limits.max_line_bytes);
        if text.len() <= max_bytes {
            let brace = self.begin(out);
            indexed::write_text(text, out);
            if out.len() - from <= max_bytes {
                return self.close(brace, out);
            }
            out.truncate(from);
        }
        match indexed::halves(text) {
            Some((first, second)) => {
                self.text(Phase::Text, first, out);
                self.text(Phase::Text, second, out);
            }
            // Text cannot meet a limit below one character.
            None => {
                let brace = self.begin(out);
                indexed::write_text(text, out);
                self.close(brace, out);
            }
        }
    }

    fn end(&mut self, _: Phase, end: &End, out: &mut BytesMut) {
        let from = out.len();
        let brace = self.begin(out);
        indexed::write_end(
            end,
            self.limits.max_trailer_bytes.saturating_sub(brace - from),
            out,
        );
        self.close(brace, out);
    }

    fn seek(&mut self, index: u64) -> bool {
        self.index = index;
        self.limits.max_line_bytes = self.limits.max_line_bytes.max(indexed::MIN_LINE_BYTES);
        true
    }

    fn snapshot(&mut self, snapshot: &Snapshot, out: &mut BytesMut) -> Result<(), EncodeError> {
        let (from, next, max_bytes) = (out.len(), self.index, self.limits.max_trailer_bytes);
        self.index = indexed::index_of(snapshot, next)?;
        let brace = self.begin(out);
        let written = indexed::write_snapshot(snapshot, out);
        if written.is_err() || out.len() - from > max_bytes {
            self.index = next;
            return written.and(Err(EncodeError::TooLarge { max_bytes }));
        }
        self.close(brace, out);
        Ok(())
    }

    fn keep_alive(&mut self, _: Phase, out: &mut BytesMut) {
        out.extend_from_slice(b"\n");
    }

    fn pad(&mut self, _: Phase, bytes: usize, out: &mut BytesMut) {
        padding::blank(bytes, out);
    }
}

/// Decodes JSON lines, however their bytes were split.
///
/// Feed it bytes, then take frames until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return frames again after that. It holds one unfinished line, within
/// the larger of the two limits, and the frames that were not taken yet.
///
/// ```
/// use ragwire::wire::Decode;
/// use ragwire::{Frame, Ndjson};
///
/// let mut decoder = Ndjson::default().decoder();
/// decoder.feed(b"{\"index\":7,\"text\":\"Yes.\"}\n{\"index\":8,");
/// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes.".into()))));
/// assert_eq!(decoder.next(), None);
/// // The connection broke: ask for the rest from this index.
/// assert_eq!(decoder.next_index(), Some(8));
/// ```
#[derive(Debug)]
pub struct NdjsonDecoder {
    lines: Lines,
    received: Received,
    requires_index: bool,
}

impl NdjsonDecoder {
    /// Returns adjacent texts as one frame, if they were decoded before the first of them was taken.
    /// A relay of a model's tokens thus sends those that arrived together as one text.
    ///
    /// ```
    /// use ragwire::wire::Decode;
    /// use ragwire::{Frame, Ndjson};
    ///
    /// let mut decoder = Ndjson::default().decoder().merge_texts();
    /// decoder.feed(b"{\"index\":0,\"text\":\"Forty\"}\n{\"index\":1,\"text\":\"-two.\"}\n");
    /// assert_eq!(decoder.next(), Some(Ok(Frame::Text("Forty-two.".into()))));
    /// assert_eq!((decoder.next(), decoder.next_index()), (None, Some(2)));
    /// ```
    #[must_use]
    pub fn merge_texts(mut self) -> Self {
        self.received.merges_texts = true;
        self
    }

    /// Returns the phase that the stream has reached.
    pub fn phase(&self) -> Phase {
        self.received.phase()
    }

    /// Returns the index of the next frame, from which to resume a stream that broke off. `None`
    /// before the first frame.
    pub fn next_index(&self) -> Option<u64> {
        self.received.next_index()
    }

    /// Takes the object of one line that was already parsed, as [`feed`](Decode::feed) takes the
    /// line. For lines in which each object carries more than the frame.
    pub fn feed_object(&mut self, members: Map<String, Value>) {
        if self.received.has_failed() {
            return;
        }
        let taken = if self.received.has_ended() {
            Err(DecodeError::TrailingBytes)
        } else {
            take_object(&mut self.received, self.requires_index, members)
        };
        if let Err(error) = taken {
            self.received.fail(error);
        }
    }
}

fn take_line(received: &mut Received, requires_index: bool, line: &[u8]) -> Result<(), DecodeError> {
    if is_blank(line) {
        return Ok(());
    }
    let next = received.next_index().unwrap_or_default();
    let numbered = |index: Option<u64>| index.or_else(|| (!requires_index).then_some(next));
    if let Some((index, text)) = indexed::read_text(line)
        && let Some(index) = numbered(index)
    {
        return received.push_text(index, text);
    }
    if let Some((index, event)) = object::read_typed(line)
        && let Some(index) = numbered(index)
    {
        return received.push(index, false, || Ok(event));
    }
    let members = serde_json::from_slice(line).map_err(|_| DecodeError::BadEvent)?;
    take_object(received, requires_index, members)
}

fn take_object(
    received: &mut Received,
    requires_index: bool,
    mut members: Map<String, Value>,
) -> Result<(), DecodeError> {
    // Programs that relay a model's tokens also relay its empty ones.
    if !requires_index && !members.contains_key("event") && members.get("text").is_some_and(|text| text == "")
    {
        return Ok(());
    }
    let index = match members.shift_remove("index") {
        None if !requires_index => received.next_index().unwrap_or_default(),
        index => index
            .and_then(|index| index.as_u64())
            .ok_or(DecodeError::BadEvent)?,
    };
    received.push(index, indexed::is_snapshot(&members), || {
        indexed::read(index, members)
    })
}

impl Decode for NdjsonDecoder {
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.received.has_failed() {
            let taken = if self.received.has_ended() {
                Err(DecodeError::TrailingBytes)
            } else {
                match self.lines.next(&mut bytes) {
                    Ok(Some(line)) => take_line(&mut self.received, self.requires_index, line),
                    Ok(None) => Ok(()),
                    Err(TooLong) => Err(DecodeError::LineTooLong),
                }
            };
            if let Err(error) = taken {
                self.received.fail(error);
                self.lines.clear();
            }
        }
    }

    fn finish(&mut self) -> Finish {
        self.received.finish()
    }

    fn shows_failures(&self) -> bool {
        true
    }
}

impl Iterator for NdjsonDecoder {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.received.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::metadata::{Citation, Metadata};

    fn round_trip(wire: Ndjson, frames: &[Frame]) -> (String, Vec<Frame>, Finish) {
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        for frame in frames {
            encoder.encode(frame, &mut out).unwrap();
        }
        let mut decoder = wire.decoder();
        decoder.feed(&out);
        let frames = decoder.by_ref().map(Result::unwrap).collect();
        (String::from_utf8(out.to_vec()).unwrap(), frames, decoder.finish())
    }

    /// A text alone has a shorter way, which must not differ from the one of all other objects.
    #[test]
    fn every_line_is_read_as_its_object_is() {
        for line in [
            r#"{"index":0,"text":"a\u00e4\n\"b\""}"#,
            r#" { "text" : "a" } "#,
            r#"{"text":"a","index":0}"#,
            r#"{"text":"a"}"#,
            r#"{"text":""}"#,
            r#"{"text":null}"#,
            r#"{"text":1}"#,
            r#"{"index":null,"text":"a"}"#,
            r#"{"index":0.0,"text":"a"}"#,
            r#"{"index":-1,"text":"a"}"#,
            r#"{"index":"0","text":"a"}"#,
            r#"{"index":7,"text":"a"}"#,
            r#"{"index":7,"event":"cache_miss"}"#,
            r#"{"index":9007199254740991,"text":"a"}"#,
            r#"{"index":9007199254740992,"text":"a"}"#,
            r#"{"event":"of the application","text":""}"#,
            r#"{"index":0,"index":1,"text":"a","text":"b"}"#,
            r#"{"index":0,"text":"a","x":1}"#,
            r#"{"index":0,"text":"a","event":"b"}"#,
            r#"{"index":0,"text":"a","end":"completed"}"#,
            r#"{"index":0,"text":"a","end":null}"#,
            r#"{"index":0,"event":"search","tool":"bm25","query":"a\u00e4","page":2}"#,
            r#"{"event":"search","tool":"bm25","index":0,"timestamp":"2026-01-02T03:04:05.678Z"}"#,
            r#"{"event":"search","tool":"bm25","timestamp":"yesterday"}"#,
            r#"{"event":"search","tool":"bm25","timestamp":null,"page":null}"#,
            r#"{"event":"search","tool":"bm25","timestamp":1}"#,
            r#"{"event":"search","tool":"bm25","page":-1}"#,
            r#"{"event":"search","tool":null}"#,
            r#"{"event":"search","tool":"bm25","unknown":{"a":[1,2.5,"b"]}}"#,
            r#"{"event":"search","tool":"bm25","tool":"dense"}"#,
            r#"{"event":"search","event":"cache_miss","tool":"bm25"}"#,
            r#"{"event":"s\u0065arch","tool":"bm25"}"#,
            r#"{"event":"tool_result","tool":"a","result":null}"#,
            r#"{"event":"tool_result","tool":"a","result":{"event":"b","b":1,"a":null}}"#,
            r#"{"event":"retrieval_result","tool":"a","chunks_found":8,"duration_ms":3,"top_score":7}"#,
            r#"{"event":"sources","sources":[]}"#,
            r#"{"event":"of the application","data":[1]}"#,
            r#"{"event":"of the application","data":1,"more":2}"#,
            r#"{"event":"","text":"a"}"#,
            r#"{"event":1}"#,
            r#"{"event":"cache_miss"} {}"#,
            "{\"event\":\"cache_miss\",\"a\":\"\u{e4}\"}",
        ] {
            for wire in [Ndjson::decoder, Ndjson::lenient_decoder] {
                let (mut whole, mut parsed) = (wire(&Ndjson::default()), wire(&Ndjson::default()));
                whole.feed(line.as_bytes());
                whole.feed(b"\n");
                match serde_json::from_str(line) {
                    Ok(object) => parsed.feed_object(object),
                    Err(_) => parsed.received.fail(DecodeError::BadEvent),
                }
                assert_eq!(whole.next_index(), parsed.next_index(), "{line}");
                let frames: Vec<_> = whole.collect();
                assert_eq!(frames, parsed.collect::<Vec<_>>(), "{line}");
            }
        }
    }

    #[test]
    fn invalid_utf8_is_an_error_wherever_it_is() {
        for line in [
            &b"{\"event\":\"cache_miss\",\"unknown\":\"\xff\"}\n"[..],
            b"{\"event\":\"search\",\"tool\":\"\xff\"}\n",
            b"{\"text\":\"\xff\"}\n",
        ] {
            let mut decoder = Ndjson::default().lenient_decoder();
            decoder.feed(line);
            assert_eq!(decoder.next(), Some(Err(DecodeError::BadEvent)));
        }
    }

    #[test]
    fn texts_are_merged_until_they_are_taken_and_not_across_an_event() {
        let mut decoder = Ndjson::default().lenient_decoder().merge_texts();
        let text = |text: &str| Some(Ok(Frame::Text(text.into())));
        decoder.feed(
            b"{\"text\":\"a\"}\n{\"text\":\"\\u00e4\"}\n{\"event\":\"cache_miss\"}\n{\"text\":\"b\"}\n",
        );
        assert_eq!(decoder.next(), text("a\u{e4}"));
        assert!(matches!(decoder.next(), Some(Ok(Frame::Event { .. }))));
        assert_eq!(decoder.next(), text("b"));
        decoder.feed(b"{\"text\":\"c\"}\n{\"index\":4,\"text\":\"d\"}\n");
        assert_eq!((decoder.next(), decoder.next_index()), (text("c"), Some(5)));
        assert_eq!(decoder.next(), Some(Err(DecodeError::Gap)));
    }

    #[test]
    fn a_text_over_the_limit_becomes_several() {
        let wire = Ndjson::default().limits(Limits::default().max_line_bytes(27));
        let frames = [
            Frame::Text("\u{1f600}\n\u{1f600}\n".into()),
            Frame::End(End::default()),
        ];
        let (bytes, decoded, finish) = round_trip(wire, &frames);
        assert_eq!(finish, Finish::Complete);
        assert_eq!(
            bytes,
            "{\"index\":0,\"text\":\"\u{1f600}\\n\"}\n{\"index\":1,\"text\":\"\u{1f600}\\n\"}\n\
             {\"index\":2,\"end\":\"completed\",\"metadata\":{\"citations\":[],\"tools_used\":[]}}\n"
        );
        assert_eq!(decoded.len(), 3);
    }

    #[test]
    fn an_end_over_the_limit_is_shortened() {
        let citation = Citation::new("d", "c", "q".repeat(100), "bm25");
        for (end, max_bytes, bytes) in [
            (
                End::completed(Metadata::default().citations(vec![citation; 4])),
                120,
                r#"{"index":0,"end":"completed","metadata":{"citations":[],"tools_used":[],"truncated":true}}"#,
            ),
            (
                End::failed(Failure::new("x", "y".repeat(200))),
                100,
                r#"{"index":0,"end":"failed","metadata":{"citations":[],"tools_used":[]}}"#,
            ),
        ] {
            let wire = Ndjson::default().limits(Limits::default().max_trailer_bytes(max_bytes));
            let (written, _, finish) = round_trip(wire, &[Frame::End(end)]);
            assert_eq!((written, finish), (format!("{bytes}\n"), Finish::Complete));
        }
    }

    #[test]
    fn the_rest_of_a_stream_may_begin_with_any_index() {
        let mut decoder = Ndjson::default().decoder();
        assert_eq!(decoder.next_index(), None);
        decoder.feed(b"{\"index\":7,\"text\":\"a\"}\n");
        assert_eq!(decoder.next_index(), Some(8));
        decoder.feed(b"{\"index\":7,\"text\":\"a\"}\n");
        assert_eq!(decoder.next_index(), Some(8));
        assert_eq!(decoder.finish(), Finish::Invalid(DecodeError::Gap));
    }

    #[test]
    fn an_index_is_a_number_that_every_program_can_hold() {
        for (index, next, error) in [
            ("9007199254740991", Some(1 << 53), None),
            ("9007199254740992", None, Some(DecodeError::BadEvent)),
        ] {
            let mut decoder = Ndjson::default().lenient_decoder();
            decoder.feed(format!("{{\"index\":{index},\"text\":\"a\"}}\n").as_bytes());
            assert_eq!(decoder.next_index(), next);
            assert_eq!(decoder.find_map(Result::err), error, "{index}");
        }
    }

    #[test]
    fn an_empty_text_is_skipped_and_an_event_with_one_is_not() {
        let mut decoder = Ndjson::default().lenient_decoder();
        decoder.feed(b"{\"text\":\"\"}\n{\"event\":\"own\",\"text\":\"\"}\n");
        let names: Vec<String> = decoder
            .map(|frame| match frame.unwrap() {
                Frame::Event { event, .. } => event.name().to_owned(),
                frame => panic!("{frame:?}"),
            })
            .collect();
        assert_eq!(names, ["own"]);
    }
}
