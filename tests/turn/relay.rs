//! Answers that arrive as a stream: `send_all` and `relay`.
#![allow(clippy::disallowed_methods, reason = "servers here are tasks")]

use std::io;

use futures_util::Stream;
use http_body_util::{BodyExt, Empty};
use ragwire::event::{Retract, RoundStart};
use ragwire::turn::{Collected, RelayError};
use ragwire::wire::plain::PlainDecoder;
use ragwire::wire::{Decode, WireKind};
use ragwire::{End, FailureKind, Ndjson, Sse};

use super::*;

const UPSTREAM_FAILED: &str = "The service that answers failed. Please retry.";

fn chunks(
    chunks: &'static [&'static str],
) -> impl Stream<Item = Result<&'static [u8], io::Error>> + Send + 'static {
    stream::iter(chunks.iter().map(|chunk| match *chunk {
        "BREAK" => Err(io::Error::other("connection to 10.0.0.7 reset")),
        chunk => Ok(chunk.as_bytes()),
    }))
}

async fn relayed(decoder: impl Decode + 'static, body: &'static [&'static str]) -> Collected {
    let turn = Turn::builder()
        .commit_on(Commit::deadline(ms(0)))
        .start(move |sink: Sink| async move { sink.relay(decoder, chunks(body)).await });
    turn.commit().await.unwrap().collect().await.unwrap()
}

/// The names of the events, and the contents of thoughts.
fn names(collected: &Collected) -> Vec<String> {
    let events = collected.events.iter().map(|(event, _)| match event {
        Event::Thinking(thought) => format!("thinking {}", thought.content),
        event => event.name().to_owned(),
    });
    events.collect()
}

/// A quarter of a MiB. A line of JSON may have 1 MiB.
const SPACES: &str = match std::str::from_utf8(&[b' '; 256 * 1024]) {
    Ok(spaces) => spaces,
    Err(_) => "",
};

#[tokio::test(start_paused = true)]
async fn a_turn_ends_as_its_upstream() {
    let failed = |code: &str, message: &str, recoverable: bool| {
        let failure = Failure::new(code.to_owned(), message.to_owned());
        End::failed(if recoverable { failure } else { failure.permanent() }).status
    };
    let truncated = failed(
        "upstream_truncated",
        "The answer broke off before its end. Please retry.",
        true,
    );
    let invalid = failed(
        "upstream_unreadable",
        "The answer could not be read to its end. Please retry.",
        true,
    );
    let broken = failed("upstream_failed", UPSTREAM_FAILED, true);
    const SPLIT: &[&str] = &[
        "{\"index\":0,\"te",
        "xt\":\"Hi\"}\n{\"index\":1,\"end\":\"completed\"}\n",
    ];
    for (wire, body, status, text) in [
        (WireKind::Ndjson, SPLIT, Status::Completed, "Hi"),
        (
            WireKind::Ndjson,
            &["{\"index\":0,\"text\":\"Hi\"}\n{\"index\":1,\"end\":\"stopped\"}\n"],
            Status::Stopped,
            "Hi",
        ),
        (
            WireKind::Ndjson,
            &[
                "{\"index\":0,\"end\":\"failed\",\"error\":{\"code\":\"quota\",\"message\":\"Used up.\",\"recoverable\":false}}\n",
            ],
            failed("quota", "Used up.", false),
            "",
        ),
        // A kind that describes the connection to the upstream says nothing about this turn's.
        (
            WireKind::Ndjson,
            &[
                "{\"index\":0,\"end\":\"failed\",\"error\":{\"code\":\"gone\",\"message\":\"Ask again.\",\"recoverable\":false}}\n",
            ],
            failed("upstream_failed", UPSTREAM_FAILED, false),
            "",
        ),
        (
            WireKind::Ndjson,
            &["{\"index\":0,\"text\":\"Hi\"}\n"],
            truncated.clone(),
            "Hi",
        ),
        (WireKind::Ndjson, &[], truncated.clone(), ""),
        (
            WireKind::Ndjson,
            &["{\"index\":0,\"text\":\"Hi\"}\n<html>\n"],
            invalid.clone(),
            "Hi",
        ),
        (
            WireKind::Ndjson,
            &["{\"index\":0,\"text\":\"Hi\"}\n", "BREAK"],
            broken.clone(),
            "Hi",
        ),
        (
            WireKind::Ndjson,
            &[
                "{\"index\":0,\"text\":\"Hi\"}\n",
                SPACES,
                SPACES,
                SPACES,
                SPACES,
                SPACES,
            ],
            failed(
                "upstream_too_large",
                "The answer could not be read to its end. Please retry.",
                true,
            ),
            "Hi",
        ),
        // What follows the end is not part of the turn.
        (
            WireKind::Ndjson,
            &["{\"index\":0,\"end\":\"completed\"}\n", "BREAK"],
            Status::Completed,
            "",
        ),
        (
            WireKind::Sse,
            &["id: 0\nevent: text\ndata: {\"text\":\"Hi\"}\n\n: bye\n"],
            truncated.clone(),
            "Hi",
        ),
        (
            WireKind::Framed,
            &["\u{1d}Hi", "\u{1e}{}"],
            Status::Completed,
            "Hi",
        ),
        // Text that is cut within a character is not lost.
        (WireKind::Framed, &["\u{1d}Hi"], truncated, "Hi"),
        (WireKind::Plain, &["H", "i"], Status::Completed, "Hi"),
        (WireKind::Plain, &[], Status::Completed, ""),
        (WireKind::Plain, &["H", "BREAK"], broken, "H"),
    ] {
        let collected = relayed(wire.decoder(), body).await;
        assert_eq!(
            (collected.end.status, &*collected.text),
            (status, text),
            "{wire} {body:?}"
        );
    }
}

/// A wire of another system, whose messages are not written for readers.
#[derive(Debug)]
struct Foreign(ragwire::wire::ndjson::NdjsonDecoder);

impl Iterator for Foreign {
    type Item = <ragwire::wire::ndjson::NdjsonDecoder as Iterator>::Item;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl Decode for Foreign {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    fn finish(&mut self) -> ragwire::wire::Finish {
        self.0.finish()
    }
}

#[tokio::test(start_paused = true)]
async fn words_of_another_system_do_not_reach_the_reader() {
    for (body, code) in [
        (
            &[
                "{\"index\":0,\"end\":\"failed\",\"error\":{\"code\":\"invalid_api_key\",\"message\":\"Incorrect key: sk-1234\"}}\n",
            ],
            "invalid_api_key",
        ),
        (
            &[
                "{\"index\":0,\"end\":\"failed\",\"error\":{\"code\":\"timeout\",\"message\":\"db.internal:5432\"}}\n",
            ],
            "timeout",
        ),
        (
            &[
                "{\"index\":0,\"end\":\"failed\",\"error\":{\"code\":\"no file /etc/key\",\"message\":\"\"}}\n",
            ],
            "upstream_failed",
        ),
    ] {
        let collected = relayed(Foreign(Ndjson::default().decoder()), body).await;
        let Status::Failed(failure) = collected.end.status else {
            panic!("{body:?}");
        };
        assert_eq!((failure.code(), &*failure.message), (code, UPSTREAM_FAILED));
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_and_events_are_the_upstreams() {
    let body: &[&str] = &[
        "id: 0\nevent: search\ndata: {\"event\":\"search\",\"tool\":\"bm25\"}\n\n",
        "id: 1\nevent: mine\ndata: {\"event\":\"mine\",\"data\":{\"n\":1}}\n\nid: 2\nevent: end\n",
        "data: {\"end\":\"completed\",\"metadata\":{\"citations\":[],\"tools_used\":[\"bm25\"],\"model\":\"m\",\"queue_stats\":{\"was_queued\":false,\"queue_position\":0}}}\n\n",
    ];
    let collected = relayed(Sse::default().decoder(), body).await;
    assert_eq!(names(&collected), ["search", "mine"]);
    assert_eq!(
        collected.end.metadata,
        Metadata::default().tools_used(["bm25"]).with("model", "m")
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_queue_refuses_is_counted() {
    let long = format!(
        "{{\"index\":0,\"event\":\"reasoning\",\"content\":\"{}\"}}\n{{\"index\":1,\"end\":\"completed\"}}\n",
        "x".repeat(200)
    );
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_event_bytes(100))
        .start(|sink: Sink| async move {
            let body = stream::iter([Ok::<_, io::Error>(long)]);
            sink.relay(Ndjson::default().decoder(), body).await
        });
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    assert_eq!(
        (names(&collected), collected.end.metadata.events_dropped),
        (Vec::<String>::new(), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_sent_as_what_it_adds() {
    for (body, events, text) in [
        // First: everything.
        (
            &[
                "{\"index\":6,\"snapshot\":{\"events\":[{\"event\":\"search\",\"tool\":\"a\"}],\"text\":\"Forty\",\"events_dropped\":2}}\n",
                "{\"index\":7,\"text\":\"-two\"}\n{\"index\":8,\"end\":\"completed\"}\n",
            ][..],
            &["search"][..],
            "Forty-two",
        ),
        // Later: events after the last one, and the rest of the text.
        (
            &[
                "{\"index\":0,\"event\":\"search\",\"tool\":\"a\",\"timestamp\":\"2026-01-02T03:04:05Z\"}\n{\"index\":1,\"text\":\"F\u{f6}r\"}\n",
                "{\"index\":6,\"snapshot\":{\"events\":[{\"event\":\"search\",\"tool\":\"a\",\"timestamp\":\"2026-01-02T03:04:05Z\"},{\"event\":\"cache_miss\",\"timestamp\":\"2026-01-02T03:04:06Z\"}],\"text\":\"F\u{f6}rty\",\"events_dropped\":2}}\n",
                "{\"index\":7,\"text\":\"-two\"}\n{\"index\":8,\"end\":\"completed\"}\n",
            ],
            &["search", "cache_miss"],
            "F\u{f6}rty-two",
        ),
        // The rest of a thought.
        (
            &[
                "{\"index\":0,\"event\":\"thinking\",\"content\":\"wa\",\"id\":\"1\",\"timestamp\":\"2026-01-02T03:04:05Z\"}\n",
                "{\"index\":6,\"snapshot\":{\"events\":[{\"event\":\"thinking\",\"content\":\"wait\",\"id\":\"1\",\"timestamp\":\"2026-01-02T03:04:06Z\"}],\"text\":\"\",\"events_dropped\":2}}\n",
                "{\"index\":7,\"text\":\"Forty-two\"}\n{\"index\":8,\"end\":\"completed\"}\n",
            ],
            &["thinking wa", "thinking it"],
            "Forty-two",
        ),
        // The rest of a thought of which several pieces were sent.
        (
            &[
                "{\"index\":0,\"event\":\"thinking\",\"content\":\"wa\",\"id\":\"1\",\"timestamp\":\"2026-01-02T03:04:05Z\"}\n",
                "{\"index\":1,\"event\":\"thinking\",\"content\":\"it\",\"id\":\"1\",\"timestamp\":\"2026-01-02T03:04:05Z\"}\n",
                "{\"index\":6,\"snapshot\":{\"events\":[{\"event\":\"thinking\",\"content\":\"wait!\",\"id\":\"1\",\"timestamp\":\"2026-01-02T03:04:06Z\"}],\"text\":\"\",\"events_dropped\":2}}\n",
                "{\"index\":7,\"text\":\"Forty\"}\n{\"index\":8,\"text\":\"-two\"}\n{\"index\":9,\"end\":\"completed\"}\n",
            ],
            &["thinking wa", "thinking it", "thinking !"],
            "Forty-two",
        ),
        // The upstream took text back in the frames that were dropped.
        (
            &[
                "{\"index\":0,\"text\":\"F\u{f6}rtz\"}\n",
                "{\"index\":6,\"snapshot\":{\"events\":[],\"text\":\"F\u{f6}rty\",\"events_dropped\":2}}\n",
                "{\"index\":7,\"text\":\"-two\"}\n{\"index\":8,\"end\":\"completed\"}\n",
            ],
            &["retract"],
            "F\u{f6}rty-two",
        ),
    ] {
        let collected = relayed(Ndjson::default().decoder(), body).await;
        assert_eq!(names(&collected), events, "{body:?}");
        assert_eq!(collected.text, text, "{body:?}");
        assert_eq!(collected.end.status, Status::Completed);
        assert_eq!(collected.end.metadata.events_dropped, 2);
    }
}

/// The text before a snapshot is remembered, however many chunks it came in. What is not remembered
/// is taken back and sent again.
#[tokio::test(start_paused = true)]
async fn a_snapshot_of_a_long_answer_is_sent_as_what_it_adds() {
    const MAX: usize = 1024 * 1024;
    for (length, events) in [(10_200, &[][..]), (MAX, &[]), (MAX + 1, &["retract"])] {
        let said = "x".repeat(length);
        let line = |index: usize, text: &str| format!("{{\"index\":{index},\"text\":\"{text}\"}}\n");
        let (first, second) = said.split_at(length / 2);
        let snapshot = format!(
            "{{\"index\":6,\"snapshot\":{{\"events\":[],\"text\":\"{said}Again.\",\"events_dropped\":0}}}}\n"
        );
        let end = "{\"index\":7,\"end\":\"completed\"}\n".to_owned();
        let chunks = [line(0, first), line(1, second), snapshot, end];
        let body = stream::iter(chunks.map(Ok::<_, io::Error>));
        let wire = Ndjson::default().limits(Limits::default().max_trailer_bytes(2 * MAX));
        let turn = Turn::start(|sink: Sink| async move { sink.relay(wire.decoder(), body).await });
        let collected = turn.commit().await.unwrap().collect().await.unwrap();
        assert_eq!(names(&collected), events, "{length}");
        assert!(collected.text == format!("{said}Again."), "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_relay_has_a_code() {
    for (body, code) in [
        (&["{\"index\":0,\"end\":\"stopped\"}\n"][..], "stopped"),
        (
            &["{\"index\":0,\"end\":\"failed\",\"error\":{\"code\":\"quota\",\"message\":\"Used up.\"}}\n"],
            "quota",
        ),
        (&[], "upstream_truncated"),
    ] {
        let turn = Turn::start(move |sink: Sink| async move {
            let relayed = sink.relay(Ndjson::default().decoder(), chunks(body)).await;
            sink.send(relayed.unwrap_err().code().to_owned()).await?;
            Ok::<_, SendError>(Metadata::default())
        });
        let collected = turn.commit().await.unwrap().collect().await.unwrap();
        assert_eq!(collected.text, code);
    }
    let (sink, turn) = Turn::builder().channel();
    drop(turn);
    let body = chunks(&["{\"index\":0,\"text\":\"Hi\"}\n"]);
    let error = sink.relay(Ndjson::default().decoder(), body).await.unwrap_err();
    assert_eq!(error.code(), "disconnected");
}

/// An upstream counts its own characters; the answer may have begun before.
#[tokio::test(start_paused = true)]
async fn a_retraction_counts_from_the_beginning_of_the_relayed_answer() {
    let turn = Turn::start(|sink: Sink| async move {
        sink.send("\u{dc}ber: ").await.map_err(RelayError::from)?;
        let body = chunks(&[
            "{\"index\":0,\"text\":\"Forty\"}\n{\"index\":1,\"event\":\"retract\",\"kept\":3}\n",
            "{\"index\":2,\"text\":\"ever\"}\n{\"index\":3,\"end\":\"completed\"}\n",
        ]);
        sink.relay(Ndjson::default().decoder(), body).await
    });
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    assert_eq!(collected.events[0].0, Retract::new(9_u64).into());
    assert_eq!(collected.text, "\u{dc}ber: Forever");
}

#[tokio::test(start_paused = true)]
async fn the_upstream_is_read_only_as_fast_as_the_reader() {
    let polled = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&polled);
    let body = stream::iter(0..).map(move |index| {
        counter.fetch_add(1, Ordering::SeqCst);
        let event = "{\"event\":\"round_start\",\"round\":1,\"max_rounds\":2}";
        Ok::<_, io::Error>(format!("id: {index}\nevent: round_start\ndata: {event}\n\n"))
    });
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_frames(10))
        .start(move |sink: Sink| async move { sink.relay(Sse::default().decoder(), body).await });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    settle().await;
    assert_eq!(polled.load(Ordering::SeqCst), 11);
    stream.next().await.unwrap();
    settle().await;
    assert_eq!(polled.load(Ordering::SeqCst), 21);
}

/// Serves an upstream turn that never ends, over a real socket. The flag reports when its
/// orchestrator was dropped.
async fn endless_upstream() -> (std::net::SocketAddr, Arc<AtomicBool>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (flag, dropped) = Flag::new();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let flag = Arc::new(Mutex::new(Some(flag)));
        let service = hyper::service::service_fn(move |_| {
            let flag = flag.lock().unwrap().take();
            async move {
                let turn = Turn::start(|sink: Sink| async move {
                    let _flag = flag;
                    sink.send("Forty").await?;
                    loop {
                        tokio::time::sleep(ms(5)).await;
                        sink.send(RoundStart::new(1_u32, 2_u32)).await?;
                    }
                    #[expect(unreachable_code, reason = "names the type of the result")]
                    Ok::<_, SendError>(Metadata::default())
                });
                Ok::<_, Infallible>(turn.commit().await.unwrap().respond(Sse::default()))
            }
        });
        let socket = hyper_util::rt::TokioIo::new(socket);
        let server = hyper::server::conn::http1::Builder::new();
        let _ = server.serve_connection(socket, service).await;
    });
    (address, dropped)
}

async fn ask(address: std::net::SocketAddr, sink: Sink) -> Result<Metadata, BoxError> {
    let socket = hyper_util::rt::TokioIo::new(tokio::net::TcpStream::connect(address).await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(socket).await?;
    tokio::spawn(connection);
    let request = http::Request::get("/")
        .header("host", "rag")
        .body(Empty::<bytes::Bytes>::new())?;
    let body = sender.send_request(request).await?.into_body();
    Ok(sink
        .relay(Sse::default().decoder(), body.into_data_stream())
        .await?)
}

#[tokio::test]
async fn dropping_or_stopping_the_turn_ends_the_upstream_request() {
    for stop in [false, true] {
        let (address, dropped) = endless_upstream().await;
        let turn = Turn::start(move |sink| ask(address, sink))
            .commit()
            .await
            .unwrap();
        let handle = turn.handle();
        let mut stream = turn.stream(&Framed::default());
        assert!(!dropped.load(Ordering::SeqCst));
        if stop {
            handle.stop();
            let rest = drain(stream).await;
            assert!(rest.ends_with(STOPPED), "{rest}");
        } else {
            assert!(stream.next().await.unwrap().starts_with(b"\x1dForty"));
            drop(stream);
        }
        let ended = async {
            while !dropped.load(Ordering::SeqCst) {
                tokio::time::sleep(ms(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), ended)
            .await
            .unwrap();
    }
}

/// A failure before the first frame is a status, also if it is the upstream's.
#[tokio::test(start_paused = true)]
async fn an_upstream_that_sends_nothing_is_a_502() {
    let turn =
        Turn::start(
            |sink: Sink| async move { sink.relay(PlainDecoder::default(), chunks(&["BREAK"])).await },
        );
    let rejected = turn.commit().await.unwrap_err();
    assert_eq!(rejected.failure.kind, FailureKind::UpstreamFailed);
    assert_eq!(rejected.status(), 502);
}

#[tokio::test(start_paused = true)]
async fn streams_of_items_and_of_results_are_sent() {
    let turn = Turn::start(|sink: Sink| async move {
        sink.send_all(stream::iter([Search::new("bm25")])).await?;
        sink.send_all(stream::iter(["a".to_owned(), "b".to_owned()]))
            .await?;
        sink.send_all(stream::iter([
            ragwire::Item::from("c"),
            Event::from(Search::new("x")).into(),
        ]))
        .await?;
        // A character that is split between two pieces.
        sink.send_all(stream::iter([
            Ok::<_, io::Error>(b"\xc3".to_vec()),
            Ok(b"\xa4".to_vec()),
        ]))
        .await?;
        Ok::<_, BoxError>(Metadata::default())
    });
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    assert_eq!(
        (names(&collected), &*collected.text),
        (vec!["search".to_owned(), "search".to_owned()], "abc\u{e4}")
    );
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_stream_is_the_turns() {
    async fn send<E: Into<BoxError> + Send + 'static>(error: E) -> Collected {
        let turn = Turn::start(|sink: Sink| async move {
            sink.send_all(stream::iter([Ok("a"), Err(error), Ok("b")]))
                .await?;
            Ok::<_, BoxError>(Metadata::default())
        });
        turn.commit().await.unwrap().collect().await.unwrap()
    }
    let quota = Failure::new("quota", "Used up.");
    for (collected, failure) in [
        (send(io::Error::other("/etc/secret")).await, Failure::default()),
        (send(quota.clone()).await, quota),
    ] {
        assert_eq!(
            (collected.end.status, &*collected.text),
            (Status::Failed(failure), "a")
        );
    }
}
