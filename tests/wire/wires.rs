//! What every wire states about itself, and which streams may begin with a snapshot.

use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use ragwire::event::{Custom, Search};
use ragwire::wire::openai::Progress;
use ragwire::wire::{Decode, DecodeError, EncodeError, Finish, Limits, Spelling, Wire, WireKind};
use ragwire::{
    AgUi, AiSdk, End, Eve, Event, Forge, Frame, Framed, LangGraph, Mcp, Metadata, Ndjson, Ollama, OpenAi,
    Phase, Responses, SessionChat, Snapshot, Sse, Timestamp, TrustGraph,
};

fn ollama() -> Ollama {
    Ollama::new("m", Timestamp::from_micros(0))
}

type Headers = &'static [(&'static str, &'static str)];

/// Metrics have these names as labels, and proxies read the headers.
#[test]
fn each_wire_has_a_name_a_media_type_headers_and_a_keep_alive() {
    const EVENTS: &str = "text/event-stream";
    const LINES: &str = "application/x-ndjson";
    const COMMENT: &str = ": keep-alive\n\n";
    const NONE: Headers = &[];
    const EVE: Headers = &[
        ("x-eve-stream-format", "ndjson"),
        ("x-eve-stream-version", "16"),
        ("cache-control", "no-store, no-transform"),
    ];
    let utf8 = "text/event-stream; charset=utf-8";
    let piece = concat!(
        r#"{"model":"m","created_at":"1970-01-01T00:00:00Z","message":{"role":"assistant","content":""},"#,
        "\"done\":false}\n"
    );
    let wires: [(&dyn Wire, [&str; 3], Headers); 15] = [
        (
            &Framed::default(),
            ["framed", "text/plain; charset=utf-8", "\n"],
            NONE,
        ),
        (&Ndjson::default(), ["ndjson", LINES, "\n"], NONE),
        (&Sse::default(), ["sse", EVENTS, COMMENT], NONE),
        (&ollama(), ["ollama", LINES, piece], NONE),
        (&Mcp::new(1.into()), ["mcp", EVENTS, COMMENT], NONE),
        (&Forge::default(), ["forge", EVENTS, COMMENT], NONE),
        (
            &Eve::new("s"),
            ["eve", "application/x-ndjson; charset=utf-8", "\n"],
            EVE,
        ),
        (
            &Eve::new("s").documented(),
            ["eve", "application/x-ndjson; charset=utf-8", "\n"],
            EVE,
        ),
        // Without a blank line, which the JavaScript client takes for an event without a type.
        (
            &LangGraph::new("r"),
            ["langgraph", EVENTS, ": keep-alive\n"],
            NONE,
        ),
        (&OpenAi::new("c", 0, "m"), ["openai", utf8, COMMENT], NONE),
        (&Responses::new("r", 0, "m"), ["responses", utf8, COMMENT], NONE),
        (&SessionChat::default(), ["session_chat", EVENTS, COMMENT], NONE),
        // A socket has its pings.
        (&TrustGraph::graph_rag("r"), ["trustgraph", LINES, ""], NONE),
        (&AgUi::new("t", "r"), ["ag_ui", EVENTS, COMMENT], NONE),
        (
            &AiSdk::default(),
            ["ai_sdk", EVENTS, COMMENT],
            &[("x-vercel-ai-ui-message-stream", "v1")],
        ),
    ];
    for (wire, [name, content_type, keep_alive], headers) in wires {
        assert_eq!(
            (wire.name(), wire.content_type(), wire.headers()),
            (name, content_type, headers)
        );
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        encoder.keep_alive(&mut out);
        assert_eq!(out, keep_alive, "{name}");
        encoder.end(&End::stopped(), &mut out).unwrap();
        let ended = out.clone();
        encoder.keep_alive(&mut out);
        assert_eq!(out, ended, "{name}: nothing follows the end");
    }
}

#[test]
fn a_kind_of_wire_is_printed_as_its_name() {
    for kind in WireKind::ALL.iter().copied() {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    assert_eq!(WireKind::SessionChat.to_string(), "session_chat");
}

#[test]
fn a_wire_in_a_box_is_the_same_wire() {
    let boxed: Box<dyn Wire> = Box::new(AiSdk::default());
    let wire = AiSdk::default();
    assert_eq!(
        (Wire::name(&boxed), boxed.content_type(), Wire::headers(&boxed)),
        (wire.name(), wire.content_type(), wire.headers())
    );
}

#[test]
fn a_wire_says_whether_its_reader_sees_events_before_the_end() {
    let tuples = ragwire::wire::langgraph::Modes::of(["messages-tuple"]);
    let values = ragwire::wire::langgraph::Modes::of(["values"]);
    let custom = ragwire::wire::langgraph::Modes::of(["custom"]);
    let wires: [(&dyn Wire, bool, bool); 12] = [
        (&Sse::default(), true, true),
        // Events after text are in the trailer.
        (&Framed::default(), true, false),
        (&OpenAi::new("c", 0, "m"), true, true),
        (&OpenAi::new("c", 0, "m").progress(Progress::None), false, false),
        (&LangGraph::new("r").modes(tuples), true, true),
        (&LangGraph::new("r").modes(custom), true, true),
        (&LangGraph::new("r").modes(values), false, false),
        (&TrustGraph::graph_rag("r").streaming(true), true, true),
        (&TrustGraph::graph_rag("r"), false, false),
        (&Mcp::new(1.into()), false, false),
        (&Mcp::new(1.into()).progress(2.into()), true, true),
        // The passages are those of the last event with sources.
        (&Mcp::new(1.into()).passages(), true, true),
    ];
    for (wire, before, after) in wires {
        let encoder = wire.encoder();
        assert_eq!(
            (
                encoder.shows_events(Phase::Events),
                encoder.shows_events(Phase::Text)
            ),
            (before, after),
            "{wire:?}"
        );
        // Whatever its reader asks for: the text has begun.
        let mut encoder = wire.encoder();
        encoder.text("Yes", &mut BytesMut::new()).unwrap();
        assert_eq!(encoder.shows_events(Phase::Events), after, "{wire:?}");
    }
}

/// The messages of another system's failures may quote exceptions, paths and keys.
#[test]
fn only_our_decoders_show_the_messages_of_failures() {
    let decoders: [(Box<dyn Decode>, bool); 7] = [
        (Box::new(Framed::default().decoder()), true),
        (Box::new(Sse::default().decoder()), true),
        (Box::new(Ndjson::default().decoder()), true),
        (Box::new(AiSdk::default().decoder()), false),
        (Box::new(LangGraph::new("r").decoder()), false),
        (Box::new(Eve::new("s").decoder()), false),
        (Box::new(ragwire::wire::openai::Decoder::default()), false),
    ];
    for (mut decoder, shows) in decoders {
        assert_eq!(Decode::shows_failures(&decoder), shows, "{decoder:?}");
        assert_eq!(Decode::shows_failures(&&mut *decoder), shows, "{decoder:?}");
    }
}

#[test]
fn a_decoder_can_be_lent() {
    fn feed(mut decoder: impl Decode) -> Finish {
        decoder.feed(b"{\"index\":0,\"text\":\"Yes\"}\n");
        decoder.finish()
    }
    let mut decoder = Ndjson::default().decoder();
    assert_eq!(feed(&mut decoder), Finish::Truncated { phase: Phase::Text });
    assert_eq!(decoder.next(), Some(Ok(Frame::Text("Yes".into()))));
}

/// The wires whose streams may begin with the events and the text of a snapshot.
fn expanding() -> [Box<dyn Wire>; 9] {
    [
        Box::new(Framed::default()),
        Box::new(ollama()),
        Box::new(Mcp::new(1.into())),
        Box::new(OpenAi::new("c", 0, "m")),
        Box::new(SessionChat::default()),
        Box::new(TrustGraph::graph_rag("r").streaming(true)),
        Box::new(AgUi::new("t", "r")),
        Box::new(AiSdk::default()),
        Box::new(LangGraph::new("r")),
    ]
}

#[test]
fn a_stream_begins_with_the_events_and_the_text_of_a_snapshot() {
    let event: Event = Search::new("bm25").into();
    let snapshot = Snapshot::new(2).events(vec![(event.clone(), None)]).text("Yes");
    for wire in expanding() {
        let (mut expanded, mut out) = (wire.encoder(), BytesMut::new());
        expanded.snapshot(&snapshot, &mut out).unwrap();
        let (mut encoder, mut frames) = (wire.encoder(), BytesMut::new());
        encoder.event(&event, None, &mut frames).unwrap();
        encoder.text("Yes", &mut frames).unwrap();
        assert_eq!(out, frames, "{}", wire.name());
    }
}

#[test]
fn only_the_beginning_of_a_stream_can_be_a_snapshot() {
    let snapshot = Snapshot::new(2).text("Yes");
    for wire in expanding() {
        let name = wire.name();
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        // It replaces nothing.
        let error = encoder.snapshot(&Snapshot::new(0), &mut out).unwrap_err();
        assert_eq!((error.code(), out.len()), ("snapshot", 0), "{name}");
        encoder.snapshot(&snapshot, &mut out).unwrap();
        let begun = out.clone();
        let error = encoder.snapshot(&snapshot, &mut out).unwrap_err();
        assert_eq!((error.code(), out), ("snapshot", begun), "{name}");
    }
    // The positions of a stream that resumes are those of the whole stream.
    let wire = OpenAi::new("c", 0, "m").starting_after(1);
    let error = wire
        .encoder()
        .snapshot(&snapshot, &mut BytesMut::new())
        .unwrap_err();
    assert_eq!(error.code(), "snapshot");
}

#[test]
fn the_end_counts_the_events_of_a_snapshot_that_did_not_fit() {
    let long: Event = Custom::new("own", &"x".repeat(200)).unwrap().into();
    let events = vec![
        (long.clone(), None),
        (Search::new("t").into(), None),
        (long, None),
    ];
    let limits = Limits::default().max_line_bytes(150);
    let (mut encoder, mut out) = (Framed::default().limits(limits).encoder(), BytesMut::new());
    let snapshot = Snapshot::new(9).events(events).events_dropped(4);
    encoder.snapshot(&snapshot, &mut out).unwrap();
    encoder
        .end(&End::completed(Metadata::default()), &mut out)
        .unwrap();
    let mut decoder = Framed::default().decoder();
    decoder.feed(&out);
    let Some(Ok(Frame::End(end))) = decoder.by_ref().last() else {
        panic!("no end");
    };
    assert_eq!(end.metadata.events_dropped, 6);
}

/// A wire of another crate, with nothing but what a wire must have. It records the phases of its
/// events.
#[derive(Clone, Debug, Default)]
struct Least(Arc<Mutex<Vec<Phase>>>);

impl Wire for Least {
    fn name(&self) -> &'static str {
        "least"
    }

    fn content_type(&self) -> &'static str {
        "text/plain"
    }

    fn spelling(&self) -> Box<dyn Spelling> {
        Box::new(self.clone())
    }
}

impl Spelling for Least {
    fn event(
        &mut self,
        phase: Phase,
        _: &Event,
        _: Option<Timestamp>,
        _: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.0.lock().unwrap().push(phase);
        Ok(())
    }

    fn text(&mut self, _: Phase, _: &str, _: &mut BytesMut) {}

    fn end(&mut self, _: Phase, _: &End, _: &mut BytesMut) {}

    fn snapshot(&mut self, _: &Snapshot, _: &mut BytesMut) -> Result<(), EncodeError> {
        Ok(())
    }

    fn keep_alive(&mut self, _: Phase, _: &mut BytesMut) {}
}

#[test]
fn a_wire_that_says_no_more_has_no_headers_no_positions_and_no_padding() {
    let wire = Least::default();
    assert_eq!(wire.headers(), []);
    let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
    assert_eq!((encoder.seek(7), encoder.allow_parking()), (false, false));
    assert!(encoder.shows_events(Phase::Events) && encoder.shows_events(Phase::Text));
    let question = ragwire::event::InputRequested::new("r", "text", "?");
    encoder.park(&question, None, &mut out);
    encoder.unpark(&mut out);
    encoder.pad(1, 256, &mut out);
    assert_eq!(out, "");
}

#[test]
fn the_text_of_a_snapshot_begins_the_answer() {
    for (text, phase) in [("", Phase::Events), ("Yes", Phase::Text)] {
        let wire = Least::default();
        let (mut encoder, mut out) = (wire.encoder(), BytesMut::new());
        encoder.snapshot(&Snapshot::new(2).text(text), &mut out).unwrap();
        encoder.event(&Search::new("t").into(), None, &mut out).unwrap();
        assert_eq!(*wire.0.lock().unwrap(), [phase]);
    }
}

#[test]
fn a_decoder_knows_the_phase_of_its_stream() {
    let mut decoder = AiSdk::default().decoder();
    assert_eq!(decoder.phase(), Phase::Events);
    decoder.feed(b"data: {\"type\":\"text-delta\",\"id\":\"0\",\"delta\":\"Yes.\"}\n\n");
    assert_eq!(decoder.phase(), Phase::Text);
    decoder.feed(b"data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n");
    assert_eq!(decoder.phase(), Phase::Ended);
}

#[test]
fn a_decoder_has_the_limits_of_its_wire() {
    let limits = Limits::default().max_line_bytes(50).max_trailer_bytes(50);
    let part = format!("data: {{\"type\":\"{}\"}}\n\n", "x".repeat(50));
    for (mut decoder, finish) in [
        (
            AiSdk::default().limits(limits).decoder(),
            Finish::Invalid(DecodeError::LineTooLong),
        ),
        (
            AiSdk::default().decoder(),
            Finish::Truncated { phase: Phase::Events },
        ),
    ] {
        decoder.feed(part.as_bytes());
        assert_eq!(decoder.finish(), finish);
    }
}
