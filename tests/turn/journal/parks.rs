//! Wires that end their stream at a question to a human and continue in another stream after the
//! answer: every index, every wire, two questions at once, and turns without readers while they
//! wait.

use bytes::Bytes;
use ragwire::event::{InputRequested, ToolCall, ToolResult};
use ragwire::turn::{AnswerError, AnswerOutcome, Ask, AskError, OpenQuestion};
use ragwire::{AgUi, AiSdk, Eve};
use serde_json::json;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn parking() -> Vec<Box<dyn Wire>> {
    vec![
        Box::new(AiSdk::default().message_id("m").parks()),
        Box::new(AgUi::new("t", "r").id_prefix("turn").parks()),
        Box::new(Eve::new("s").message("why?").parks()),
        Box::new(Eve::new("s").documented().parks()),
    ]
}

/// The same wires without the opt-in.
fn plain_wires() -> Vec<Box<dyn Wire>> {
    vec![
        Box::new(AiSdk::default().message_id("m")),
        Box::new(AgUi::new("t", "r").id_prefix("turn")),
        Box::new(Eve::new("s").message("why?")),
        Box::new(Eve::new("s").documented()),
    ]
}

fn approval(id: &str) -> Ask {
    Ask::approval("Delete it?").request_id(id)
}

fn question(frame: &Frame) -> Option<(&InputRequested, Option<ragwire::Timestamp>)> {
    match frame {
        Frame::Event {
            event: Event::InputRequested(question),
            timestamp,
        } => Some((question, *timestamp)),
        _ => None,
    }
}

/// Computes what a reader of `frames` gets from `from` on while the questions in `open` wait. It
/// uses one encoder for all frames.
fn expected(wire: &impl Wire, frames: &[Frame], from: usize, open: &[&str]) -> Vec<u8> {
    let mut encoder = wire.encoder();
    assert!(encoder.allow_parking());
    let (mut out, mut begins) = (BytesMut::new(), 0);
    for (index, frame) in frames.iter().enumerate() {
        encoder.encode(frame, &mut out).unwrap();
        let asked = question(frame);
        if index + 1 == from {
            begins = out.len();
            if asked.is_some() {
                encoder.unpark(&mut out);
            }
        } else if index >= from
            && let Some((asked, timestamp)) = asked
            && open.contains(&asked.request_id.as_str())
        {
            encoder.park(asked, timestamp, &mut out);
            break;
        }
    }
    out[begins..].to_vec()
}

/// Asks two questions within an answer, each while a tool call is open.
async fn two_questions(sink: Sink) -> Result<Metadata, BoxError> {
    sink.send(Search::new("bm25")).await?;
    sink.send(ToolCall::new("sql", json!({"q": 1}))).await?;
    sink.send("There are ").await?;
    let answer = sink.ask(approval("r1")).await?;
    sink.send(ToolResult::new("sql", answer)).await?;
    sink.send("some, ").await?;
    let answer = sink.ask(Ask::text("Who?").request_id("r2")).await?;
    sink.send(format!("said {answer}.")).await?;
    Ok(Metadata::default().tools_used(["bm25"]))
}

/// Starts a turn and drops its first reader.
async fn parked<F>(journal: &Journal, orchestrator: impl FnOnce(Sink) -> F) -> TurnId
where
    F: Future<Output = Result<Metadata, BoxError>> + Send + 'static,
{
    let turn = Turn::builder()
        .journal(journal)
        .timeouts(Timeouts::default().keep_alive(None))
        .start(orchestrator);
    let turn = turn.commit().await.unwrap();
    // Until it asks, a turn without a reader ends.
    settle().await;
    let id = turn.id();
    drop(turn);
    settle().await;
    id
}

/// Checks for every wire and index that a reader gets exactly the frames up to the open question,
/// or up to the end.
async fn check_all(journal: &Journal, id: TurnId, open: &[&str]) {
    let recorded = if open.is_empty() {
        frames(resume(journal, id, 0).await).await
    } else {
        // The lossless wire does not stop at a question, so this reads until nothing is ready.
        let mut stream = resume(journal, id, 0).await.stream(&Ndjson::default());
        let mut decoder = Ndjson::default().decoder();
        while let Ok(Some(chunk)) = tokio::time::timeout(ms(1), stream.next()).await {
            decoder.feed(&chunk);
        }
        decoder.by_ref().map(Result::unwrap).collect()
    };
    for wire in parking() {
        for from in 0..=recorded.len() {
            let turn = resume(journal, id, from as u64).await;
            let mut stream = turn.stream(&wire);
            let mut read = Vec::new();
            // After the open question nothing is ready, and the stream stays open.
            while let Ok(Some(chunk)) = tokio::time::timeout(ms(1), stream.next()).await {
                read.extend_from_slice(&chunk);
            }
            let expected = expected(&wire, &recorded, from, open);
            assert_eq!(
                show(&read),
                show(&expected),
                "{wire:?} from {from}, {open:?} open"
            );
            let parks = recorded[from..]
                .iter()
                .any(|frame| question(frame).is_some_and(|(asked, _)| open.contains(&&*asked.request_id)));
            let ends = open.is_empty() || parks;
            assert_eq!(stream.is_finished(), ends, "{wire:?} from {from}, {open:?} open");
            assert_eq!(stream.is_parked(), parks);
            // A reader that passes questions continues.
            let mut stream = resume(journal, id, from as u64)
                .await
                .stream(&wire)
                .through_questions();
            let mut read = Vec::new();
            while let Ok(Some(chunk)) = tokio::time::timeout(ms(1), stream.next()).await {
                read.extend_from_slice(&chunk);
            }
            assert_eq!(show(&read), show(&self::expected(&wire, &recorded, from, &[])));
            assert!(!stream.is_parked());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_reader_gets_the_exact_rest() {
    let journal = in_memory();
    // The turn has no reader and would be cancelled, but it continues while it waits for the
    // answer.
    let id = parked(&journal, two_questions).await;
    check_all(&journal, id, &["r1"]).await;
    let asked = journal.request(id, "", "r1").await.unwrap();
    let OpenQuestion {
        kind,
        prompt,
        options,
        ..
    } = &asked.ask;
    assert_eq!(
        (kind.as_str(), prompt.as_str(), asked.next),
        ("approval", "Delete it?", 4)
    );
    assert_eq!(options, &["Approve", "Reject"]);
    assert_eq!(asked.ask.verdict(true), Some(json!("Approve")));
    assert_eq!(asked.ask.verdict(false), Some(json!("Reject")));

    let answered = journal.answer(id, "", "r1", "Approve".into()).await;
    assert_eq!(answered, Ok(AnswerOutcome::Accepted));
    settle().await;
    check_all(&journal, id, &["r2"]).await;
    let asked = journal.request(id, "", "r2").await.unwrap();
    assert_eq!((asked.next, asked.ask.verdict(true)), (8, None));
    assert_eq!(
        journal.request(id, "", "r3").await.unwrap_err(),
        AnswerError::Unknown
    );
    assert_eq!(
        journal.request(TurnId::random(), "", "r1").await.unwrap_err(),
        AnswerError::Unknown
    );

    let answered = journal.answer(id, "", "r2", "me".into()).await;
    assert_eq!(answered, Ok(AnswerOutcome::Accepted));
    settle().await;
    check_all(&journal, id, &[]).await;
    // The index of a question is still known after the turn has ended.
    assert_eq!(journal.request(id, "", "r1").await.unwrap().next, 4);
    assert_eq!(
        journal.answer(id, "", "r1", "Approve".into()).await,
        Ok(AnswerOutcome::Same)
    );
}

/// The documented way: read up to the question, answer it, and resume after it.
#[tokio::test(start_paused = true)]
async fn segments_make_up_the_turn() {
    let journal = in_memory();
    for wire in parking() {
        let turn = Turn::builder()
            .journal(&journal)
            .owner("alice")
            .start(two_questions);
        let turn = turn.commit().await.unwrap();
        let id = turn.id();
        let mut segments = vec![bytes(turn, &wire).await];
        for (request_id, answer) in [("r1", "Reject"), ("r2", "me")] {
            // A human takes minutes.
            tokio::time::sleep(200 * SECOND).await;
            let next = journal.request(id, "alice", request_id).await.unwrap().next;
            let turn = journal.resume(id, "alice", next).await.unwrap();
            let answered = journal.answer(id, "alice", request_id, answer.into()).await;
            assert_eq!(answered, Ok(AnswerOutcome::Accepted));
            segments.push(bytes(turn, &wire).await);
        }
        let recorded = frames(journal.resume(id, "alice", 0).await.unwrap()).await;
        for (segment, (from, open)) in segments.iter().zip([(0, "r1"), (4, "r2"), (8, "")]) {
            assert_eq!(
                show(segment),
                show(&expected(&wire, &recorded, from, &[open])),
                "{wire:?}"
            );
        }
    }
}

/// Without the opt-in or without a journal, a question does not end the stream.
#[tokio::test(start_paused = true)]
async fn other_streams_stay_open() {
    let journal = in_memory();
    for (wire, twin) in parking().into_iter().zip(plain_wires()) {
        let mut read = Vec::new();
        for (is_kept, wire) in [(true, &twin), (false, &twin), (false, &wire)] {
            let builder = if is_kept {
                Turn::builder().journal(&journal)
            } else {
                Turn::builder()
            };
            let turn = builder.start(async |sink: Sink| {
                let answer = sink.ask(approval("r1")).await?;
                sink.send(answer.to_string()).await?;
                Ok::<_, AskError>(Metadata::default())
            });
            let turn = turn.commit().await.unwrap();
            let handle = turn.handle();
            let answer = async {
                settle().await;
                assert_eq!(handle.answer("r1", "Approve"), Ok(AnswerOutcome::Accepted));
            };
            let (bytes, ()) = tokio::join!(bytes(turn, wire), answer);
            read.push(without_times(&bytes));
        }
        assert_eq!(read[0], read[1]);
        assert_eq!(read[1], read[2], "{wire:?}");
    }
}

/// Removes the timestamps, which differ between two runs.
fn without_times(bytes: &[u8]) -> String {
    let mut text = plain(bytes);
    for mark in [",\"timestamp\":", ",\"meta\":{\"at\":"] {
        let mut parts = text.split(mark);
        let first = parts.next().unwrap().to_owned();
        text = parts.fold(first, |text, part| text + part.split_once('}').unwrap().1);
    }
    text
}

/// Two branches of an orchestrator ask at the same time, and one of them sends text meanwhile: each
/// question ends one stream.
#[tokio::test(start_paused = true)]
async fn two_questions_at_once_are_two_streams() {
    let journal = in_memory();
    let id = parked(&journal, async |sink: Sink| {
        let first = sink.ask(approval("r1"));
        let second = async {
            sink.send("Meanwhile. ").await?;
            sink.ask(approval("r2")).await
        };
        let (first, second) = tokio::try_join!(first, second)?;
        sink.send(format!("{first} {second}")).await?;
        Ok::<_, BoxError>(Metadata::default())
    })
    .await;
    check_all(&journal, id, &["r1", "r2"]).await;
    // The second question is answered first, so only the first one still ends a stream.
    let answered = journal.answer(id, "", "r2", "Approve".into()).await;
    assert_eq!(answered, Ok(AnswerOutcome::Accepted));
    settle().await;
    check_all(&journal, id, &["r1"]).await;
    let answered = journal.answer(id, "", "r1", "Reject".into()).await;
    assert_eq!(answered, Ok(AnswerOutcome::Accepted));
    settle().await;
    check_all(&journal, id, &[]).await;
}

/// An `input_requested` event that is sent with `send` is not a question: the turn does not wait
/// for an answer, and no stream ends there.
#[tokio::test(start_paused = true)]
async fn an_event_of_that_name_is_not_a_question() {
    let journal = in_memory();
    let turn = journaled(&journal).start(async |sink: Sink| {
        sink.send(InputRequested::new("r1", "approval", "Really?"))
            .await?;
        tokio::time::sleep(SECOND).await;
        sink.send("Yes.").await?;
        Ok::<_, SendError>(Metadata::default())
    });
    let id = turn.commit().await.unwrap().id();
    for wire in parking() {
        let read = bytes(resume(&journal, id, 0).await, &wire).await;
        let recorded = frames(resume(&journal, id, 0).await).await;
        assert_eq!(recorded.len(), 3);
        assert_eq!(show(&read), show(&expected(&wire, &recorded, 0, &[])));
    }
}

/// Asks a question and sends the result as text.
async fn ask_and_report(ask: Ask, sink: Sink) -> Result<Metadata, BoxError> {
    let text = match sink.ask(ask).await {
        Ok(answer) => answer.to_string(),
        Err(error) => error.code().to_owned(),
    };
    sink.send(text).await?;
    tokio::time::sleep(SECOND).await;
    sink.send("!").await?;
    Ok(Metadata::default())
}

async fn outcome(journal: &Journal, id: TurnId) -> (String, &'static str) {
    let collected = resume(journal, id, 0).await.collect().await.unwrap();
    (collected.text, collected.end.status.as_str())
}

/// A turn without readers continues while it waits for an answer, whatever its disconnect policy
/// is.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_human_needs_no_reader() {
    let grace = Duration::from_secs(30);
    for (disconnect, answered_after, then_back_after, expected) in [
        // The answer and the reader are in time.
        (
            Disconnect::cancel(),
            Some(250),
            grace - SECOND,
            ("\"Approve\"!", "completed"),
        ),
        (
            Disconnect::grace(SECOND),
            Some(250),
            grace - SECOND,
            ("\"Approve\"!", "completed"),
        ),
        (
            Disconnect::run_to_end(),
            Some(250),
            2 * grace,
            ("\"Approve\"!", "completed"),
        ),
        // Without an answer, the turn continues after the time-out and has as long for a reader.
        (
            Disconnect::cancel(),
            None,
            Duration::ZERO,
            ("ask_expired!", "completed"),
        ),
    ] {
        let journal = in_memory();
        let turn = Turn::builder()
            .journal(&journal)
            .on_disconnect(disconnect)
            .timeouts(Timeouts::default().total(3600 * SECOND))
            .start(|sink| ask_and_report(approval("r1"), sink));
        let id = turn.commit().await.unwrap().id();
        settle().await;
        if let Some(seconds) = answered_after {
            tokio::time::sleep(seconds * SECOND).await;
            let answered = journal.answer(id, "", "r1", "Approve".into()).await;
            assert_eq!(answered, Ok(AnswerOutcome::Accepted));
        } else {
            tokio::time::sleep(Duration::from_secs(300)).await;
        }
        tokio::time::sleep(then_back_after).await;
        let (text, status) = expected;
        assert_eq!(
            outcome(&journal, id).await,
            (text.to_owned(), status),
            "{disconnect:?}"
        );
    }
    // A turn that has no reader for longer than that is stopped as usual.
    for (disconnect, after) in [
        (Disconnect::cancel(), grace),
        (Disconnect::grace(2 * grace), 2 * grace),
    ] {
        let journal = in_memory();
        let (flag, dropped) = Flag::new();
        let turn =
            Turn::builder()
                .journal(&journal)
                .on_disconnect(disconnect)
                .start(move |sink: Sink| async move {
                    let _flag = flag;
                    let answer = sink.ask(approval("r1")).await?;
                    tokio::time::sleep(500 * SECOND).await;
                    sink.send(answer.to_string()).await?;
                    Ok::<_, BoxError>(Metadata::default())
                });
        let id = turn.commit().await.unwrap().id();
        settle().await;
        tokio::time::sleep(100 * SECOND).await;
        journal.answer(id, "", "r1", "Approve".into()).await.unwrap();
        tokio::time::sleep(after - ms(1)).await;
        assert!(!dropped.load(Ordering::SeqCst), "{disconnect:?}");
        tokio::time::sleep(ms(2)).await;
        assert!(dropped.load(Ordering::SeqCst), "{disconnect:?}");
        assert_eq!(outcome(&journal, id).await, (String::new(), "stopped"));
    }
    // The policy applies as usual if a reader stays until the answer and then disconnects.
    let journal = in_memory();
    let (flag, dropped) = Flag::new();
    let turn = Turn::builder()
        .journal(&journal)
        .start(move |sink: Sink| async move {
            let _flag = flag;
            sink.ask(approval("r1")).await?;
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(Metadata::default())
        });
    let turn = turn.commit().await.unwrap();
    settle().await;
    let handle = turn.handle();
    assert_eq!(handle.answer("r1", "Approve"), Ok(AnswerOutcome::Accepted));
    tokio::time::sleep(SECOND).await;
    drop(turn);
    settle().await;
    assert!(dropped.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_turn_that_waits() {
    let journal = in_memory();
    let id = parked(&journal, |sink| ask_and_report(approval("r1"), sink)).await;
    let next = journal.request(id, "", "r1").await.unwrap().next;
    // A reader that resumes before the answer waits for it.
    let early: Vec<TurnStream> = {
        let mut streams = Vec::new();
        for wire in parking() {
            streams.push(resume(&journal, id, next).await.stream(&wire));
        }
        streams
    };
    settle().await;
    assert_eq!(journal.stop(id, "").await, Ok(true));
    settle().await;
    assert_eq!(
        journal.answer(id, "", "r1", "Approve".into()).await,
        Err(AnswerError::Late)
    );
    let recorded = frames(resume(&journal, id, 0).await).await;
    for (wire, stream) in parking().iter().zip(early) {
        let read: Vec<Bytes> = stream.collect().await;
        let from = usize::try_from(next).unwrap();
        assert_eq!(show(&read.concat()), show(&expected(wire, &recorded, from, &[])));
    }
    check_all(&journal, id, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_owner_finds_a_question() {
    let journal = in_memory();
    let turn = Turn::builder()
        .journal(&journal)
        .owner("alice")
        .start(|sink| ask_and_report(approval("r1"), sink));
    let id = turn.commit().await.unwrap().id();
    settle().await;
    for owner in ["", "mallory", "Alice"] {
        let asked = journal.request(id, owner, "r1").await;
        assert_eq!(asked.unwrap_err(), AnswerError::Unknown);
        let answered = journal.answer(id, owner, "r1", "Approve".into()).await;
        assert_eq!(answered, Err(AnswerError::Unknown));
    }
    assert_eq!(journal.request(id, "alice", "r1").await.unwrap().next, 1);
}
