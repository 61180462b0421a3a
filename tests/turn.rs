//! What a turn does, on a paused clock. Orchestrators are scripts, expected bytes are literal; only time stamps are taken out.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use ragwire::event::{Custom, Reasoning, Search};
use ragwire::turn::{
    BoxError, Ending, Pending, QueueLimits, Reply, TrySendError, TurnBuilder, TurnGroup, TurnStream,
    collect_evidence,
};
use ragwire::wire::Limits;
use ragwire::{
    Commit, Event, EventSink, Failure, Framed, Metadata, Rejected, SendError, Sink, Status, Timeouts, Turn,
};
use tokio::time::Instant;

// ---- scripts and what becomes of them ----------------------------------------------------------------------------------

/// One step of an orchestrator.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A search event.
    Report,
    Text(&'static str),
    Bytes(&'static [u8]),
    /// Milliseconds.
    Wait(u64),
    Fail,
    FailAs(&'static str, &'static str),
    Panic,
}
use Step::{Bytes, Fail, FailAs, Panic, Report, Text, Wait};

async fn play(steps: &'static [Step], sink: Sink) -> Result<Metadata, BoxError> {
    for step in steps {
        match *step {
            Report => sink.send(Search::new("bm25")).await?,
            Text(text) => sink.send(text).await?,
            Bytes(bytes) => sink.send(bytes).await?,
            Wait(after) => tokio::time::sleep(ms(after)).await,
            Fail => return Err("/etc/secret: no such key".into()),
            FailAs(code, message) => return Err(Failure::new(code, message).into()),
            Panic => panic!("the script says so"),
        }
    }
    Ok(Metadata::default().tools_used(["bm25"]))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// All that the reader gets: the bytes without time stamps, or why there are none.
async fn read(pending: Pending) -> Result<String, String> {
    match pending.commit().await {
        Ok(turn) => Ok(drain(turn.stream(&Framed::default())).await),
        Err(rejected) => Err(rejected.failure.code.into_owned()),
    }
}

async fn drain(stream: TurnStream) -> String {
    plain(&stream.collect::<Vec<_>>().await.concat())
}

fn plain(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut parts = text.split(",\"timestamp\":\"");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + part.split_once('"').unwrap().1)
}

const SEARCH: &str = "{\"event\":\"search\",\"tool\":\"bm25\"}\n";
const DONE: &str = "\x1e{\"citations\":[],\"tools_used\":[\"bm25\"]}";
const EMPTY: &str = "\x1e{\"citations\":[],\"tools_used\":[]}";
const STOPPED: &str = "\x1e{\"citations\":[],\"tools_used\":[],\"status\":\"stopped\"}";
const SORRY: &str = "I hit an internal error while gathering evidence. Please retry.";
const FAILED: &str = "\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"chat_failed\",\"message\":\"I hit an internal error while gathering evidence. Please retry.\",\"recoverable\":true}}";
const TOO_LONG: &str = "The answer took too long. Please retry.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\"error\":{\"code\":\"timeout\",\"message\":\"The answer took too long. Please retry.\",\"recoverable\":true}}";

/// Runs `steps` and compares everything that the reader gets: bytes, or the code of the rejection.
async fn check(turn: TurnBuilder, steps: &'static [Step], expected: Result<String, &str>) {
    let read = read(turn.start(|sink| play(steps, sink))).await;
    assert_eq!(read, expected.map_err(str::to_owned), "{steps:?}");
}

/// Tells when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn new() -> (Self, Arc<AtomicBool>) {
        let dropped = Arc::new(AtomicBool::new(false));
        (Self(Arc::clone(&dropped)), dropped)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Lets every task that can run, run.
async fn settle() {
    tokio::time::sleep(Duration::from_nanos(1)).await;
}

// ---- the end -----------------------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn every_end_in_every_phase() {
    for (steps, expected) in [
        (&[][..], Ok(format!("\x1d{DONE}"))),
        (&[Report], Ok(format!("{SEARCH}\x1d{DONE}"))),
        (&[Text("Hi")], Ok(format!("\x1dHi{DONE}"))),
        (&[Report, Text("Hi"), Wait(1), Text(" you")], Ok(format!("{SEARCH}\x1dHi you{DONE}"))),
        (&[Text("a\x1db\x1ec")], Ok(format!("\x1da\u{241d}b\u{241e}c{DONE}"))),
        (&[Bytes(b"\xf0\x9f"), Wait(1), Bytes(b"\x98\x80!")], Ok(format!("\x1d\u{1f600}!{DONE}"))),
        (&[Bytes(b"\xf0\x9f\x98")], Ok(format!("\x1d\u{fffd}{DONE}"))),
        (&[Bytes(b"\xf0\x9f"), Text("x")], Ok(format!("\x1d\u{fffd}x{DONE}"))),
        (
            &[Text("Hi"), Report, Text("!")],
            Ok("\x1dHi!\x1e{\"citations\":[],\"tools_used\":[\"bm25\"],\"events\":[{\"event\":\"search\",\"tool\":\"bm25\"}]}".into()),
        ),
        (&[Fail], Err("chat_failed")),
        (&[Wait(1), Fail], Err("chat_failed")),
        (&[Report, Fail], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Report, Wait(1), Fail], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Report, Text("Hi"), Wait(1), Fail], Ok(format!("{SEARCH}\x1dHi\n\n{SORRY}{FAILED}"))),
        (&[Bytes(b"Hi\xc3"), Fail], Ok(format!("\x1dHi\u{fffd}\n\n{SORRY}{FAILED}"))),
        (&[Panic], Err("chat_failed")),
        (&[Report, Panic], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Report, Wait(1), Panic], Ok(format!("{SEARCH}\x1d{SORRY}{FAILED}"))),
        (&[Text("Hi"), Wait(1), Panic], Ok(format!("\x1dHi\n\n{SORRY}{FAILED}"))),
        (&[FailAs("no_documents", "Nothing is indexed.")], Err("no_documents")),
        (
            &[Report, FailAs("no_documents", "Nothing \x1e is indexed.")],
            Ok(format!(
                "{SEARCH}\x1dNothing \u{241e} is indexed.\x1e{{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
                 \"error\":{{\"code\":\"no_documents\",\"message\":\"Nothing \\u001e is indexed.\",\"recoverable\":true}}}}"
            )),
        ),
    ] {
        check(Turn::builder(), steps, expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_mode_is_said_however_it_ends() {
    let turn = || Turn::builder().mode("hybrid");
    check(
        turn(),
        &[],
        Ok("\x1d\x1e{\"citations\":[],\"mode\":\"hybrid\",\"tools_used\":[\"bm25\"]}".into()),
    )
    .await;
    let failed = FAILED.replace("\"tools_used\"", "\"mode\":\"hybrid\",\"tools_used\"");
    check(
        turn(),
        &[Text("a"), Fail],
        Ok(format!("\x1da\n\n{SORRY}{failed}")),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn commit_policies() {
    let first_frame = Commit::first_frame();
    let first_text = Commit::first_text();
    let deadline = Commit::deadline(ms(7));
    for (policy, steps, at, expected) in [
        (first_frame, &[Wait(5), Report, Wait(5), Text("a")][..], 5, Ok(())),
        (first_frame, &[Wait(5), Text("a"), Wait(5)], 5, Ok(())),
        (first_frame, &[], 0, Ok(())),
        (first_frame, &[Wait(3)], 3, Ok(())),
        (first_frame, &[Wait(3), Fail], 3, Err("chat_failed")),
        (first_frame, &[Wait(3), Report, Fail], 3, Ok(())),
        (first_text, &[Wait(5), Report, Wait(5), Text("a")], 10, Ok(())),
        (first_text, &[Report, Wait(5), Fail], 5, Err("chat_failed")),
        (first_text, &[Report, Wait(5)], 5, Ok(())),
        // A full queue: nothing more could come.
        (
            first_text,
            &[Report, Report, Report, Wait(5), Text("a")],
            0,
            Ok(()),
        ),
        (
            first_text.or_after(ms(7)),
            &[Report, Wait(20), Text("a")],
            7,
            Ok(()),
        ),
        (
            first_text.or_after(ms(7)),
            &[Report, Wait(5), Text("a")],
            5,
            Ok(()),
        ),
        (deadline, &[Report, Text("a"), Wait(20)], 7, Ok(())),
        (deadline, &[Wait(20), Text("a")], 7, Ok(())),
        (deadline, &[Text("a"), Wait(5), Fail], 5, Err("chat_failed")),
        (deadline, &[Text("a"), Wait(5)], 5, Ok(())),
        (Commit::deadline(Duration::MAX), &[Text("a"), Wait(5)], 5, Ok(())),
    ] {
        let turn = Turn::builder().queue(QueueLimits::default().max_frames(3));
        let begun = Instant::now();
        let committed = turn
            .commit_on(policy)
            .start(|sink| play(steps, sink))
            .commit()
            .await;
        let code = committed.map(drop).map_err(|rejected| rejected.failure.code);
        assert_eq!(code, expected.map_err(Into::into), "{policy:?} {steps:?}");
        assert_eq!(begun.elapsed().as_millis(), at, "{policy:?} {steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn time_outs() {
    let none = Timeouts::default()
        .keep_alive(None)
        .idle(None)
        .total(None)
        .write_stall(None);
    for (timeouts, steps, took, expected) in [
        (none.idle(ms(100)), &[Wait(200)][..], 100, Err("timeout")),
        (none.total(ms(100)), &[Wait(200)], 100, Err("timeout")),
        (none.idle(ms(100)), &[Report, Wait(99), Text("a"), Wait(99), Text("b"), Wait(200)], 298, Ok(format!("{SEARCH}\x1dab\n\n{TOO_LONG}"))),
        (none.total(ms(100)), &[Report, Wait(99), Text("a"), Wait(99)], 100, Ok(format!("{SEARCH}\x1da\n\n{TOO_LONG}"))),
        (none.idle(ms(100)), &[Report, Wait(200)], 100, Ok(format!("{SEARCH}\x1d{TOO_LONG}"))),
        (none.keep_alive(ms(15)), &[Report, Wait(40), Text("a"), Wait(40), Text("b")], 80, Ok(format!("{SEARCH}\n\n\x1dab{DONE}"))),
        (none.keep_alive(ms(15)), &[Report, Wait(10), Report, Wait(14), Text("a")], 24, Ok(format!("{SEARCH}{SEARCH}\x1da{DONE}"))),
        (none, &[Report, Wait(1_000_000_000), Text("a")], 1_000_000_000, Ok(format!("{SEARCH}\x1da{DONE}"))),
        (none.idle(Duration::MAX).total(Duration::MAX).keep_alive(Duration::MAX).write_stall(Duration::MAX), &[Report, Wait(10)], 10, Ok(format!("{SEARCH}\x1d{DONE}"))),
        // A quiet orchestrator after a late event is no slow reader.
        (none.write_stall(ms(30)), &[Text("a"), Wait(1), Report, Wait(100), Text("b")], 101, Ok("\x1dab\x1e{\"citations\":[],\"tools_used\":[\"bm25\"],\"events\":[{\"event\":\"search\",\"tool\":\"bm25\"}]}".into())),
    ] {
        let begun = Instant::now();
        check(Turn::builder().timeouts(timeouts), steps, expected).await;
        assert_eq!(begun.elapsed().as_millis(), took, "{steps:?}");
    }
}

/// Late events leave nothing to take, so a reader that keeps up never empties the queue of them: they must not fill it.
#[tokio::test(start_paused = true)]
async fn late_events_do_not_fill_the_queue() {
    let turn = Turn::builder().queue(QueueLimits::default().max_frames(4));
    let read = read(turn.start(|sink: Sink| async move {
        sink.send("a").await?;
        for _ in 0..20 {
            sink.send(Search::new("bm25")).await?;
        }
        Ok::<_, SendError>(Metadata::default())
    }));
    let bytes = tokio::time::timeout(ms(10), read)
        .await
        .expect("the orchestrator waits for ever")
        .unwrap();
    let events = vec!["{\"event\":\"search\",\"tool\":\"bm25\"}"; 20].join(",");
    assert_eq!(
        bytes,
        format!("\x1da\x1e{{\"citations\":[],\"tools_used\":[],\"events\":[{events}]}}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_read_is_given_up() {
    let (flag, dropped) = Flag::new();
    let timeouts = Timeouts::default().write_stall(ms(30));
    let turn = Turn::builder().timeouts(timeouts).start(|sink: Sink| async move {
        let _flag = flag;
        sink.send("a").await?;
        tokio::time::sleep(ms(5)).await;
        sink.send("b").await?;
        std::future::pending::<Result<Metadata, SendError>>().await
    });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    assert_eq!(plain(&stream.next().await.unwrap()), "\x1da");
    tokio::time::sleep(ms(34)).await;
    assert!(!dropped.load(Ordering::SeqCst));
    tokio::time::sleep(ms(2)).await;
    assert!(dropped.load(Ordering::SeqCst), "the orchestrator is freed");
    assert_eq!(
        drain(stream).await,
        "b\n\nThe connection was too slow for this answer. Please retry.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\
         \"status\":\"failed\",\"error\":{\"code\":\"write_stalled\",\"message\":\"The connection was too slow for this answer. Please retry.\",\
         \"recoverable\":true}}"
    );
}

// ---- stop, disconnect, and sinks after that ----------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn stop_in_every_phase() {
    for (steps, at, expected) in [
        (&[Report, Wait(50)][..], None, Err("stopped")),
        (&[Wait(20), Report, Wait(50)], Some(10), Err("stopped")),
        (
            &[Report, Wait(50), Text("a")],
            Some(10),
            Ok(format!("{SEARCH}\x1d{STOPPED}")),
        ),
        (
            &[Report, Text("a"), Wait(50), Text("b")],
            Some(10),
            Ok(format!("{SEARCH}\x1da{STOPPED}")),
        ),
        (
            &[Bytes(b"a\xc3"), Wait(50)],
            Some(10),
            Ok(format!("\x1da\u{fffd}{STOPPED}")),
        ),
    ] {
        let turn = Turn::start(|sink| play(steps, sink));
        let handle = turn.handle();
        assert_eq!(handle.id(), turn.id());
        let again = handle.clone();
        let stop = async move {
            if let Some(at) = at {
                tokio::time::sleep(ms(at)).await;
            }
            assert!(handle.stop());
            assert!(!handle.stop(), "a second stop does nothing");
        };
        let begun = Instant::now();
        // The stop comes first where it comes at once.
        let ((), read) = tokio::join!(stop, read(turn));
        assert_eq!(read, expected.map_err(str::to_owned), "{steps:?}");
        assert_eq!(begun.elapsed(), ms(at.unwrap_or(0)), "{steps:?}");
        assert!(
            !again.stop() && !again.fail(Failure::default()),
            "nothing after the end"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_handle_fails_the_turn() {
    let turn = Turn::start(|sink| play(&[Text("a"), Wait(50)], sink))
        .commit()
        .await
        .unwrap();
    assert!(
        turn.handle()
            .fail(Failure::new("quota", "No more today.").permanent())
    );
    assert_eq!(
        drain(turn.stream(&Framed::default())).await,
        "\x1da\n\nNo more today.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
         \"error\":{\"code\":\"quota\",\"message\":\"No more today.\",\"recoverable\":false}}"
    );
}

/// What every way of sending says now.
async fn codes(sink: &Sink) -> [String; 5] {
    let closed = sink
        .closed()
        .map_or_else(|| "open".into(), |error| error.code().into());
    let code =
        |sent: Result<(), SendError>| sent.map_or_else(|error| error.code().into(), |()| "sent".into());
    let tried = match sink.try_send("x") {
        Ok(()) => "sent".into(),
        Err(TrySendError::Full) => "full".into(),
        Err(TrySendError::Send(error)) => error.code().into(),
        Err(error) => error.to_string(),
    };
    [
        closed,
        code(sink.send("x").await),
        code(sink.send(Search::new("bm25")).await),
        tried,
        code(sink.finish(Metadata::default())),
    ]
}

#[tokio::test(start_paused = true)]
async fn sinks_after_the_end_say_why() {
    type Act = fn(Sink, Pending) -> Option<Pending>;
    for (what, act, code) in [
        (
            "finish",
            (|sink, turn| sink.finish(Metadata::default()).map(|()| turn).ok()) as Act,
            "turn_ended",
        ),
        (
            "fail",
            |sink, turn| sink.fail(Failure::default()).map(|()| turn).ok(),
            "turn_ended",
        ),
        (
            "stop",
            |_, turn| turn.handle().stop().then_some(turn),
            "turn_ended",
        ),
        ("disconnect", |_, _| None, "disconnected"),
    ] {
        let (sink, turn) = Turn::builder().channel();
        sink.send("a").await.unwrap();
        let turn = act(sink.clone(), turn);
        assert_eq!(codes(&sink).await, [code; 5], "{what}, at once");
        settle().await;
        assert_eq!(codes(&sink).await, [code; 5], "{what}, later");
        let thread = std::thread::spawn({
            let sink = sink.clone();
            move || sink.blocking_send("x").unwrap_err().code().to_owned()
        });
        assert_eq!(thread.join().unwrap(), code, "{what}, on a thread");
        drop(turn);
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_after_the_end_is_not_seen() {
    let (sink, turn) = Turn::builder().channel();
    sink.send("a").await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    assert_eq!(
        sink.finish(Metadata::default().mode("late")).unwrap_err().code(),
        "turn_ended"
    );
    assert_eq!(sink.fail(Failure::default()).unwrap_err().code(), "turn_ended");
    sink.send("b").await.unwrap_err();
    assert_eq!(read(turn).await, Ok(format!("\x1da{EMPTY}")));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_sink_fails_a_channel() {
    for (before, expected) in [
        (None, Err("chat_failed".to_owned())),
        (Some("a"), Ok(format!("\x1da\n\n{SORRY}{FAILED}"))),
    ] {
        let (sink, turn) = Turn::builder().channel();
        let clone = sink.clone();
        drop(sink);
        settle().await;
        if let Some(text) = before {
            clone.send(text).await.unwrap();
        }
        drop(clone);
        assert_eq!(read(turn).await, expected);
    }
    // With an orchestrator, dropping sinks means nothing.
    let turn = Turn::start(|sink| async move {
        drop(sink);
        Ok::<_, Infallible>(Metadata::default())
    });
    assert_eq!(read(turn).await, Ok(format!("\x1d{EMPTY}")));
}

#[tokio::test(start_paused = true)]
async fn blocked_senders_wake() {
    for (what, expected) in [
        ("taken", "sent"),
        ("stop", "turn_ended"),
        ("finish", "turn_ended"),
        ("disconnect", "disconnected"),
    ] {
        let (sink, turn) = Turn::builder()
            .queue(QueueLimits::default().max_frames(1))
            .channel();
        sink.send(Search::new("bm25")).await.unwrap();
        let blocked: Vec<_> = (0..3)
            .map(|_| {
                let sink = sink.clone();
                async move {
                    sink.send(Search::new("bm25"))
                        .await
                        .map_or_else(|error| error.code().to_owned(), |()| "sent".into())
                }
            })
            .collect();
        let woken = futures_util::future::join_all(blocked);
        let act = async {
            settle().await;
            match what {
                "stop" => assert!(turn.handle().stop()),
                "finish" => sink.finish(Metadata::default()).unwrap(),
                "disconnect" => drop(turn),
                _ => {
                    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
                    for _ in 0..4 {
                        assert_eq!(plain(&stream.next().await.unwrap()), SEARCH);
                    }
                }
            }
        };
        let (codes, ()) = tokio::time::timeout(ms(10), futures_util::future::join(woken, act))
            .await
            .unwrap();
        assert_eq!(codes, [expected; 3], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_any_stage_cancels() {
    type Stage = fn(Pending) -> futures_util::future::BoxFuture<'static, ()>;
    let stages: [(&str, Stage); 7] = [
        ("pending, at once", |turn| async { drop(turn) }.boxed()),
        ("pending", |turn| {
            async {
                settle().await;
                drop(turn)
            }
            .boxed()
        }),
        ("commit", |turn| {
            async {
                let commit = turn.commit();
                tokio::time::timeout(ms(1), commit).await.unwrap_err();
            }
            .boxed()
        }),
        ("turn", |turn| async { drop(committed(turn).await) }.boxed()),
        ("stream", |turn| {
            async { drop(committed(turn).await.stream(&Framed::default())) }.boxed()
        }),
        ("stream, read", |turn| {
            async {
                let mut stream = committed(turn).await.stream(&Framed::default());
                stream.next().await.unwrap();
                assert!(stream.next().now_or_never().is_none());
            }
            .boxed()
        }),
        ("body", |turn| {
            async { drop(committed(turn).await.respond(Framed::default())) }.boxed()
        }),
    ];
    async fn committed(turn: Pending) -> Turn {
        turn.commit().await.unwrap()
    }
    for (what, stage) in stages {
        let (flag, dropped) = Flag::new();
        let turn = Turn::builder()
            .commit_on(Commit::first_frame())
            .start(move |sink: Sink| async move {
                let _flag = flag;
                if what != "commit" {
                    sink.send("a").await?;
                }
                std::future::pending::<Result<Metadata, SendError>>().await
            });
        stage(turn).await;
        settle().await;
        assert!(dropped.load(Ordering::SeqCst), "{what}");
    }
}

// ---- the sink ----------------------------------------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn clones_keep_their_order() {
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_frames(3))
        .start(|sink: Sink| async move {
            let clones = (0..4).map(|clone| {
                let sink = sink.clone();
                async move {
                    for n in 0..50 {
                        sink.send(Search::new(format!("{clone}")).page(n)).await?;
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, SendError>(())
                }
            });
            futures_util::future::try_join_all(clones).await?;
            Ok::<_, SendError>(Metadata::default())
        });
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    assert_eq!(collected.events.len(), 200);
    for clone in 0..4 {
        let pages: Vec<_> = collected
            .events
            .iter()
            .filter_map(|(event, _)| match event {
                Event::Search(search) if search.tool == clone.to_string() => search.page,
                _ => None,
            })
            .collect();
        assert_eq!(pages, (0..50).collect::<Vec<_>>());
    }
}

/// How much a producer that never stops gets rid of while the reader takes `takes` times.
async fn sent_after(limits: QueueLimits, piece: &'static str, event: bool, takes: usize) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let turn = Turn::builder().queue(limits).start(move |sink: Sink| async move {
        loop {
            if event {
                sink.send(Reasoning::new(piece)).await?;
            } else {
                sink.send(piece).await?;
            }
            counter.fetch_add(1, Ordering::SeqCst);
        }
        #[expect(unreachable_code, reason = "names the type of the result")]
        Ok::<_, SendError>(Metadata::default())
    });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    for _ in 0..takes {
        settle().await;
        stream.next().await.unwrap();
    }
    settle().await;
    count.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn back_pressure() {
    const KIB: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let frames = QueueLimits::default().max_frames(10);
    let bytes = QueueLimits::default().max_bytes(1024);
    for (limits, event, takes, expected) in [
        (frames, true, 0, 10),
        (frames, true, 1, 20),
        (frames, true, 3, 40),
        // 128 bytes each: the ninth finds 1,024 waiting.
        (bytes, false, 0, 8),
        (bytes, false, 1, 16),
        (bytes, false, 3, 32),
    ] {
        assert_eq!(
            sent_after(limits, KIB, event, takes).await,
            expected,
            "{limits:?} {takes}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn full_queues_refuse_or_drop() {
    let (sink, turn) = Turn::builder()
        .queue(QueueLimits::default().max_frames(2))
        .channel();
    let sink = sink.drop_when_full(["reasoning"]);
    sink.send(Reasoning::new("1")).await.unwrap();
    sink.send(Search::new("bm25")).await.unwrap();
    assert!(matches!(
        sink.try_send(Search::new("bm25")),
        Err(TrySendError::Full)
    ));
    assert!(matches!(sink.try_send("text"), Err(TrySendError::Full)));
    // Dropped, and counted.
    sink.send(Reasoning::new("2")).await.unwrap();
    sink.try_send(Reasoning::new("3")).unwrap();
    sink.finish(Metadata::default()).unwrap();
    assert_eq!(
        read(turn).await.unwrap(),
        format!(
            "{{\"event\":\"reasoning\",\"content\":\"1\"}}\n{SEARCH}\x1d\x1e{{\"citations\":[],\"tools_used\":[],\"events_dropped\":2}}"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn an_event_over_the_limit_is_refused_and_the_turn_goes_on() {
    let wire = Framed::default().limits(Limits::default().max_line_bytes(100));
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_event_bytes(100))
        .start(|sink: Sink| async move {
            let long = Reasoning::new("x".repeat(100));
            assert_eq!(
                sink.send(long.clone()).await.unwrap_err().code(),
                "event_too_large"
            );
            sink.send(Search::new("bm25")).await?;
            tokio::time::sleep(ms(1)).await;
            assert_eq!(
                sink.send(long.clone()).await.unwrap_err().code(),
                "event_too_large"
            );
            assert!(matches!(
                sink.try_send(long),
                Err(TrySendError::Send(SendError::Invalid(_)))
            ));
            sink.send("a").await?;
            Ok::<_, SendError>(Metadata::default())
        });
    assert_eq!(
        drain(turn.commit().await.unwrap().stream(&wire)).await,
        format!("{SEARCH}\x1da{EMPTY}")
    );
}

/// The queue takes what the wire does not: when the wire is chosen after the end, the end still says what is missing.
#[tokio::test(start_paused = true)]
async fn events_that_the_wire_refuses_are_counted() {
    let wire = Framed::default().limits(Limits::default().max_line_bytes(100));
    let turn = Turn::start(|sink: Sink| async move {
        sink.send(Reasoning::new("x".repeat(100))).await?;
        Ok::<_, SendError>(Metadata::default())
    });
    let turn = turn.commit().await.unwrap();
    settle().await;
    assert_eq!(
        drain(turn.stream(&wire)).await,
        "\x1d\x1e{\"citations\":[],\"tools_used\":[],\"events_dropped\":1}"
    );
}

#[test]
fn a_plain_thread_sends_and_is_slowed_down() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (sink, turn) = {
        let _context = runtime.enter();
        Turn::builder()
            .queue(QueueLimits::default().max_frames(2))
            .channel()
    };
    let thread = std::thread::spawn(move || {
        for n in 0..1000 {
            sink.blocking_send(Custom::new("n", &n).unwrap()).unwrap();
        }
        sink.blocking_send("x".repeat(100_000)).unwrap();
        sink.finish(Metadata::default()).unwrap();
    });
    let collected = runtime.block_on(async { turn.commit().await.unwrap().collect().await.unwrap() });
    thread.join().unwrap();
    let sent: Vec<_> = (0..1000)
        .map(|n| Event::from(Custom::new("n", &n).unwrap()))
        .collect();
    assert_eq!(
        collected
            .events
            .into_iter()
            .map(|(event, _)| event)
            .collect::<Vec<_>>(),
        sent
    );
    assert_eq!(collected.text, "x".repeat(100_000));
}

// ---- pairs, hooks, groups, collecting ----------------------------------------------------------------------------------

async fn collector(events: EventSink) -> Result<&'static str, SendError> {
    events.send(Search::new("bm25")).await?;
    events.send(Search::new("dense")).await?;
    Ok("found")
}

#[tokio::test(start_paused = true)]
async fn pairs() {
    let events: Vec<Event> = vec![Search::new("bm25").into(), Search::new("dense").into()];
    let alone = collect_evidence(collector).await.unwrap();
    assert_eq!((alone.found, &alone.events), ("found", &events));

    let lines = format!("{SEARCH}{}", SEARCH.replace("bm25", "dense"));
    for (tokens, expected) in [
        (vec![Ok("a"), Ok(" b")], Ok(format!("{lines}\x1da b{DONE}"))),
        (vec![], Ok(format!("{lines}\x1d{DONE}"))),
        (
            vec![Ok("a"), Err("cut"), Ok("b")],
            Ok(format!("{lines}\x1da\n\n{SORRY}{FAILED}")),
        ),
        (vec![Err("cut")], Ok(format!("{lines}\x1d{SORRY}{FAILED}"))),
    ] {
        let expected_events = events.clone();
        let turn = Turn::builder().start_pair(collector, move |evidence| {
            assert_eq!((evidence.found, evidence.events), ("found", expected_events));
            Reply::new(stream::iter(tokens), Metadata::default().tools_used(["bm25"]))
        });
        assert_eq!(read(turn).await, expected);
    }

    let failing = Turn::builder().start_pair(
        |_: EventSink| async { Err::<(), _>("no index") },
        |_| Reply::new(stream::empty::<Result<&str, &str>>(), Metadata::default()),
    );
    assert_eq!(read(failing).await, Err("chat_failed".into()));
}

/// What the hook was told, and when.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Ended>>>);

/// The status, the text and the answer.
type Ended = (&'static str, String, String);

impl Told {
    fn hook(
        &self,
        takes: u64,
    ) -> impl FnOnce(Ending) -> futures_util::future::BoxFuture<'static, ()> + Send + 'static {
        let told = self.clone();
        move |ending| {
            async move {
                tokio::time::sleep(ms(takes)).await;
                let answer = ending.answer();
                told.0
                    .lock()
                    .unwrap()
                    .push((ending.end.status.as_str(), ending.text, answer));
            }
            .boxed()
        }
    }

    fn all(&self) -> Vec<Ended> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_is_told_once_and_first() {
    let said = |status, text: &str, answer: &str| vec![(status, text.to_owned(), answer.to_owned())];
    for (steps, expected) in [
        (&[][..], said("completed", "", "")),
        (
            &[Report, Text("a"), Wait(5), Bytes(b"\xc3"), Bytes(b"\xa9")],
            said("completed", "a\u{e9}", "a\u{e9}"),
        ),
        (&[Fail], said("failed", "", SORRY)),
        (
            &[Report, Text("a"), Fail],
            said("failed", "a", &format!("a\n\n{SORRY}")),
        ),
        (&[Text("a"), Panic], said("failed", "a", &format!("a\n\n{SORRY}"))),
        (
            &[Text("a"), Wait(1000)],
            said("failed", "a", "a\n\nThe answer took too long. Please retry."),
        ),
    ] {
        let told = Told::default();
        let timeouts = Timeouts::default().idle(ms(500));
        let turn = Turn::builder()
            .timeouts(timeouts)
            .before_end(told.hook(7))
            .start(|sink| play(steps, sink));
        if let Ok(turn) = turn.commit().await {
            let mut stream = turn.stream(&Framed::default());
            while let Some(chunk) = stream.next().await {
                assert_eq!(
                    chunk.contains(&0x1e),
                    !told.all().is_empty(),
                    "the hook comes before the trailer"
                );
            }
        }
        assert_eq!(told.all(), expected, "{steps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_hook_is_told_of_stops_and_disconnects() {
    let stopped = vec![("stopped", "a".to_owned(), "a".to_owned())];
    for disconnect in [false, true] {
        let told = Told::default();
        let turn = Turn::builder()
            .before_end(told.hook(7))
            .start(|sink| play(&[Text("a"), Wait(50)], sink));
        let turn = turn.commit().await.unwrap();
        if disconnect {
            drop(turn);
        } else {
            turn.handle().stop();
            drain(turn.stream(&Framed::default())).await;
        }
        tokio::time::sleep(ms(10)).await;
        assert_eq!(told.all(), stopped);
    }
}

/// The orchestrator has returned and the hook runs: nothing can be added any more, or the hook was told half the answer.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_the_hook_runs() {
    let told = Told::default();
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let turn = Turn::builder()
        .before_end(told.hook(50))
        .start(move |sink: Sink| async move {
            sink.send("a").await?;
            *keep.lock().unwrap() = Some(sink);
            Ok::<_, SendError>(Metadata::default())
        });
    let turn = turn.commit().await.unwrap();
    settle().await;
    let sink = kept.lock().unwrap().take().unwrap();
    assert_eq!(
        sink.send("b").await.map_err(|error| error.code().to_owned()),
        Err("turn_ended".into())
    );
    assert!(!turn.handle().stop(), "the end is decided");
    assert_eq!(
        drain(turn.stream(&Framed::default())).await,
        format!("\x1da{EMPTY}")
    );
    assert_eq!(told.all(), [("completed", "a".into(), "a".into())]);
}

/// The hook was told of a completed turn; its own time must not make a failed one of it.
#[tokio::test(start_paused = true)]
async fn a_slow_hook_does_not_change_the_end() {
    let told = Told::default();
    let timeouts = Timeouts::default().idle(ms(500)).total(ms(600));
    let turn = Turn::builder()
        .timeouts(timeouts)
        .before_end(told.hook(9_000))
        .start(|sink| play(&[Text("a")], sink));
    assert_eq!(read(turn).await, Ok(format!("\x1da{DONE}")));
    assert_eq!(told.all(), [("completed", "a".into(), "a".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_or_panics_holds_nobody_up() {
    let hang = Turn::builder()
        .before_end(|_| std::future::pending())
        .start(|sink| play(&[Text("a")], sink));
    let begun = Instant::now();
    assert_eq!(read(hang).await, Ok(format!("\x1da{DONE}")));
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    // The application lost what it had to remember, so the reader is not told that all is well.
    let panics = Turn::builder()
        .before_end(|_| async { panic!("hook") })
        .start(|sink| play(&[Text("a")], sink));
    assert_eq!(read(panics).await, Ok(format!("\x1da\n\n{SORRY}{FAILED}")));
}

fn code(rejected: Result<(), Rejected>) -> String {
    rejected.map_or_else(|rejected| rejected.failure.code.into_owned(), |()| "free".into())
}

#[tokio::test(start_paused = true)]
async fn groups_count_and_refuse() {
    let group = TurnGroup::new(1);
    let start = |steps| Turn::builder().group(&group).start(|sink| play(steps, sink));
    for (what, steps) in [
        ("completes", &[Text("a"), Wait(5)][..]),
        ("fails", &[Fail]),
        ("panics", &[Text("a"), Panic]),
        ("stops", &[Text("a"), Wait(50)]),
        ("disconnects", &[Text("a"), Wait(50)]),
        ("disconnects at once", &[Text("a"), Wait(50)]),
    ] {
        let turn = start(steps);
        assert_eq!(
            (group.active(), code(group.check())),
            (1, "busy".into()),
            "{what}"
        );
        let called = Arc::new(AtomicBool::new(false));
        let witness = Arc::clone(&called);
        let refused = Turn::builder().group(&group).start(move |_| {
            witness.store(true, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Metadata::default()) }
        });
        let id = refused.id();
        let rejected = refused.commit().await.unwrap_err();
        assert_eq!(
            (&*rejected.failure.code, rejected.retry_after),
            ("busy", Some(Duration::from_secs(5)))
        );
        assert_eq!(rejected.id, id, "the id in the response is the one in the logs");
        assert!(!called.load(Ordering::SeqCst), "a refused turn costs nothing");
        match what {
            "disconnects at once" => drop(turn),
            "disconnects" => drop(turn.commit().await.unwrap()),
            "stops" => {
                turn.handle().stop();
                drop(read(turn).await);
            }
            _ => drop(read(turn).await),
        }
        settle().await;
        assert_eq!(
            (group.active(), code(group.check())),
            (0, "free".into()),
            "{what}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_channel_is_closed() {
    let group = TurnGroup::new(0);
    let (sink, turn) = Turn::builder().group(&group).channel();
    assert_eq!(codes(&sink).await, ["turn_ended"; 5]);
    assert_eq!(read(turn).await, Err("busy".into()));
}

#[tokio::test(start_paused = true)]
async fn groups_shut_down() {
    let group = TurnGroup::new(10);
    let start = |steps| Turn::builder().group(&group).start(|sink| play(steps, sink));
    let (early, late) = (start(&[Wait(50)]), start(&[Text("a"), Wait(50)]));
    let late = late.commit().await.unwrap();
    group.shut_down();
    assert_eq!(code(group.check()), "shutting_down");
    assert_eq!(read(start(&[])).await, Err("shutting_down".into()));
    assert_eq!(read(early).await, Err("shutting_down".into()));
    assert!(group.drained().now_or_never().is_none(), "a reader is left");
    let drained = group.drained();
    let rest = drain(late.stream(&Framed::default()));
    let (rest, ()) = tokio::time::timeout(ms(10), futures_util::future::join(rest, drained))
        .await
        .unwrap();
    assert_eq!(
        rest,
        "\x1da\n\nThe server is restarting. Please retry in a moment.\x1e{\"citations\":[],\"tools_used\":[\"chat_failed\"],\"status\":\"failed\",\
         \"error\":{\"code\":\"shutting_down\",\"message\":\"The server is restarting. Please retry in a moment.\",\"recoverable\":true}}"
    );
}

#[tokio::test(start_paused = true)]
async fn collected_turns() {
    for (steps, text, events, status) in [
        (
            &[Report, Text("a"), Wait(1), Report, Text("b")][..],
            "ab",
            2,
            "completed",
        ),
        (&[Report, Text("a"), Fail], "a", 1, "failed"),
        (&[Text("a"), Bytes(b"\xc3"), Panic], "a\u{fffd}", 0, "failed"),
    ] {
        let turn = Turn::start(|sink| play(steps, sink)).commit().await.unwrap();
        let collected = turn.collect().await.unwrap();
        assert_eq!(
            (
                &*collected.text,
                collected.events.len(),
                collected.end.status.as_str()
            ),
            (text, events, status)
        );
        assert!(collected.events.iter().all(|(_, timestamp)| timestamp.is_some()));
    }
    let (flag, dropped) = Flag::new();
    let endless = Turn::start(|sink: Sink| async move {
        let _flag = flag;
        loop {
            sink.send("x".repeat(10_000)).await?;
        }
        #[expect(unreachable_code, reason = "names the type of the result")]
        Ok::<_, SendError>(Metadata::default())
    });
    assert_eq!(
        endless
            .commit()
            .await
            .unwrap()
            .collect()
            .await
            .unwrap_err()
            .code(),
        "turn_too_large"
    );
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
}

// ---- what only shows outside of one thread and in the logs -------------------------------------------------------------

/// Real time: an orchestrator that blocks its thread cannot look at its own clock, so the reader does, a second later.
///
/// The runtime of its own stands for a server's other threads: one whose every thread is blocked has no timers at all.
#[tokio::test]
async fn an_orchestrator_that_blocks_its_thread_is_cut() {
    let blocked = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let turn = {
        let _context = blocked.enter();
        let timeouts = Timeouts::default().total(ms(50));
        Turn::builder().timeouts(timeouts).start(|sink: Sink| async move {
            sink.send("a").await?;
            let _ = held.recv();
            Ok::<_, SendError>(Metadata::default())
        })
    };
    let begun = std::time::Instant::now();
    let read = tokio::time::timeout(Duration::from_secs(20), read(turn)).await;
    let took = begun.elapsed();
    drop(release);
    blocked.shutdown_background();
    assert_eq!(read.unwrap(), Ok(format!("\x1da\n\n{TOO_LONG}")));
    assert!(took >= Duration::from_secs(1), "{took:?}");
}

#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<(String, String)>>>);

impl tracing::field::Visit for Capture {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0
            .lock()
            .unwrap()
            .push((field.name().into(), format!("{value:?}")));
    }
}

impl tracing::Subscriber for Capture {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("ragwire")
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn logs_say_how_it_went_and_never_what_was_said() {
    let group = TurnGroup::new(1);
    let _place = Turn::builder()
        .group(&group)
        .start(|sink| play(&[Wait(1_000_000)], sink));
    for (steps, full, outcome) in [
        (&[Report, Text("ANSWER"), Text("ANSWER")][..], false, "completed"),
        (&[Report, Text("ANSWER"), Fail], false, "chat_failed"),
        (&[Report, Text("ANSWER"), Wait(1_000_000)], false, "timeout"),
        (&[Fail], false, "chat_failed"),
        (&[], true, "busy"),
    ] {
        let capture = Capture::default();
        let guard = tracing::subscriber::set_default(capture.clone());
        let turn = if full {
            Turn::builder().group(&group)
        } else {
            Turn::builder()
        };
        let turn = turn.start(|sink| play(steps, sink));
        let id = turn.id().to_string();
        let read = read(turn).await;
        drop(guard);
        let fields = capture.0.lock().unwrap().clone();
        let last = |name: &str| {
            fields
                .iter()
                .rfind(|field| field.0 == name)
                .map(|field| field.1.trim_matches('"').to_owned())
        };
        assert_eq!(last("id"), Some(id), "{steps:?}");
        assert_eq!(last("outcome").as_deref(), Some(outcome), "{steps:?}");
        assert!(!format!("{fields:?}").contains("ANSWER"), "{fields:?}");
        if let Ok(bytes) = read {
            assert_eq!(last("wire").as_deref(), Some("framed"));
            let frames = steps
                .iter()
                .filter(|step| matches!(step, Report | Text(_)))
                .count();
            assert_eq!(last("frames"), Some(frames.to_string()));
            assert!(
                last("bytes").unwrap().parse::<usize>().unwrap() > bytes.len(),
                "time stamps come on top"
            );
            assert!(last("first_event_ms").is_some() && last("first_text_ms").is_some());
        }
    }
}

#[tokio::test]
async fn a_runtime_that_goes_down_ends_its_turns() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let turn = {
        let _context = runtime.enter();
        Turn::start(|sink| play(&[Text("a"), Wait(1_000_000)], sink))
    };
    let turn = turn.commit().await.unwrap();
    runtime.shutdown_background();
    let collected = tokio::time::timeout(Duration::from_secs(20), turn.collect())
        .await
        .unwrap()
        .unwrap();
    let Status::Failed(failure) = collected.end.status else {
        panic!("{collected:?}")
    };
    assert_eq!((&*collected.text, &*failure.code), ("a", "chat_failed"));
}
