//! Padding hides the lengths of texts, and no reader sees it.

use bytes::BytesMut;
use ragwire::event::Search;
use ragwire::wire::Wire;
use ragwire::wire::sse::EventStream;
use ragwire::{
    AgUi, AiSdk, End, Eve, Event, Forge, Frame, Framed, LangGraph, Mcp, Metadata, Ndjson, Ollama, OpenAi,
    Responses, SessionChat, Sse, Timestamp, TrustGraph,
};

const BLOCK: usize = 256;

/// Which frames a wire has room to pad after.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Room {
    All,
    /// Those before the first text.
    Events,
}

fn frames() -> Vec<Frame> {
    let event = |query: &str| Frame::Event {
        event: Event::from(Search::new("bm25").query(query)),
        timestamp: None,
    };
    let text = |text: &str| Frame::Text(text.to_owned());
    vec![
        event("why"),
        event("why not"),
        text("I"),
        text(" incomprehensibly"),
        text("\n\n"),
        text(": \u{1f989} data: x"),
        text(&" and".repeat(100)),
        Frame::End(End::completed(Metadata::default())),
    ]
}

/// Encodes each frame as a chunk, with and without padding.
fn chunks(wire: &dyn Wire) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (mut plain, mut padded) = (Vec::new(), Vec::new());
    let (mut encoder, mut other) = (wire.encoder(), wire.encoder());
    for frame in frames() {
        let (mut chunk, mut with_padding) = (BytesMut::new(), BytesMut::new());
        encoder.encode(&frame, &mut chunk).unwrap();
        other.encode(&frame, &mut with_padding).unwrap();
        assert_eq!(chunk, with_padding);
        other.pad(chunk.len(), BLOCK, &mut with_padding);
        plain.push(chunk.to_vec());
        padded.push(with_padding.to_vec());
    }
    (plain, padded)
}

/// What a reader of server-sent events sees: the name, the ID and the data of each event.
fn events(chunks: &[Vec<u8>]) -> Vec<String> {
    let mut stream = EventStream::default();
    stream.feed(&chunks.concat());
    stream.map(|message| format!("{:?}", message.unwrap())).collect()
}

fn lines(chunks: &[Vec<u8>]) -> Vec<String> {
    let text = String::from_utf8(chunks.concat()).unwrap();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    // JSON allows spaces around it.
    lines
        .map(|line| line.trim_start_matches(' ').to_owned())
        .collect()
}

#[test]
fn padded_chunks_have_one_size_and_readers_see_the_same() {
    let wires: [(&dyn Wire, Room); 17] = [
        (&Framed::default(), Room::Events),
        (&Ndjson::default(), Room::All),
        (&Sse::default(), Room::All),
        (&AiSdk::default(), Room::All),
        (&AgUi::new("t", "r"), Room::All),
        (&OpenAi::new("c", 0, "rag"), Room::All),
        (&Responses::new("r", 0, "rag"), Room::All),
        (&Ollama::new("rag", Timestamp::from_micros(0)), Room::All),
        (&Forge::default(), Room::All),
        (&SessionChat::default(), Room::All),
        (&LangGraph::new("r"), Room::All),
        (&Eve::new("s"), Room::All),
        (&Eve::new("s").documented(), Room::All),
        (&TrustGraph::graph_rag("1").streaming(true), Room::All),
        (&TrustGraph::document_rag("1"), Room::All),
        (&Mcp::new("1".into()), Room::All),
        (&Mcp::new("1".into()).progress("t".into()), Room::All),
    ];
    for (wire, room) in wires {
        let name = wire.name();
        let (plain, padded) = chunks(wire);
        let last = plain.len() - 1;
        assert_eq!(plain[last], padded[last], "{name}: nothing follows the end");
        let mut lengths = std::collections::BTreeSet::new();
        for (at, (plain, padded)) in plain.iter().zip(&padded).take(last).enumerate() {
            assert!(padded.starts_with(plain), "{name}");
            let is_padded = match room {
                Room::All => true,
                Room::Events => at < 2,
            };
            if is_padded && !plain.is_empty() {
                assert_eq!(padded.len() % BLOCK, 0, "{name} {at}: {}", padded.len());
                // The words: not the events, nor the long text.
                if (2..6).contains(&at) {
                    lengths.insert(padded.len());
                }
            } else {
                assert_eq!(plain, padded, "{name} {at}");
            }
        }
        if room == Room::All && wire.content_type().starts_with("text/event-stream") {
            assert_eq!(events(&plain), events(&padded), "{name}");
        } else if room == Room::All {
            assert_eq!(lines(&plain), lines(&padded), "{name}");
        }
        // The words of this wire's texts need less than a block, and so all look alike.
        if ["sse", "ndjson", "openai", "ollama"].contains(&name) {
            assert_eq!(lengths.len(), 1, "{name}: {lengths:?}");
        }
    }
}

#[test]
fn padding_has_a_least_size() {
    let mut encoder = Sse::default().encoder();
    for (written, expected) in [
        (0, 0),
        (1, 255),
        (252, 4),
        (253, 259),
        (255, 257),
        (256, 0),
        (257, 255),
    ] {
        let mut out = BytesMut::new();
        encoder.pad(written, BLOCK, &mut out);
        assert_eq!(out.len(), expected, "{written}");
        encoder.pad(written, 0, &mut out);
        assert_eq!(out.len(), expected);
    }
    let mut out = BytesMut::new();
    encoder.pad(3, 2, &mut out);
    assert_eq!(out, ":  \n\n");
}
