//! The limits of questions and answers.

use std::sync::atomic::AtomicU32;

use ragwire::event::{Source, Sources};
use ragwire::turn::AskError;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_id_of_a_question_has_up_to_128_bytes() {
    let (sink, turn) = Turn::builder().channel();
    let id = "x".repeat(128);
    let asked = sink.ask(approval().request_id(id.clone()));
    let answered = async {
        let turn = turn.commit().await.unwrap();
        assert_eq!(turn.handle().answer(&id, "Approve"), Ok(AnswerOutcome::Accepted));
        turn
    };
    let (answer, _turn) = tokio::join!(asked, answered);
    assert_eq!(answer.unwrap(), "Approve");
}

#[tokio::test(start_paused = true)]
async fn invalid_questions_are_rejected() {
    let (sink, turn) = Turn::builder().channel();
    let turn = turn.commit();
    let long = "x".repeat(129);
    for (ask, code) in [
        (approval().request_id(""), "ask_request_id"),
        (approval().request_id("a\nb"), "ask_request_id"),
        (approval().request_id("a\u{85}b"), "ask_request_id"),
        (approval().request_id(long), "ask_request_id"),
        (Ask::text("x".repeat(16 * 1024)), "ask_too_large"),
        (
            Ask::choice("Which?").options(vec!["x"; 8 * 1024]),
            "ask_too_large",
        ),
    ] {
        assert_eq!(sink.ask(ask).await.unwrap_err().code(), code);
    }
    let url = format!("https://x.test/{}", "x".repeat(16 * 1024));
    let refused = sink.authorize(Authorize::new("github", url)).await.unwrap_err();
    assert_eq!(refused.code(), "ask_too_large");
    let refused = sink.authorize(Authorize::new("github", "https://x.test/").request_id("\0"));
    assert_eq!(refused.await.unwrap_err().code(), "ask_request_id");

    // Sixteen questions are open, each with its own ID. The next one is rejected.
    let waiting: Vec<_> = (0..16).map(|_| Box::pin(sink.ask(Ask::text("Who?")))).collect();
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let refused = sink.ask(approval()).await.unwrap_err();
    assert!(matches!(refused, AskError::TooMany), "{refused:?}");
    sink.send("the question was not sent").await.unwrap();
    let handle = turn.await.unwrap().handle();
    drop(waiting);
    assert_eq!(handle.open_questions(), []);
}

/// Generated IDs have 128 bits and differ.
#[tokio::test(start_paused = true)]
async fn questions_get_ids() {
    let (sink, turn) = Turn::builder().channel();
    let handle = turn.handle();
    let first = sink.ask(Ask::text("Who?"));
    let second = sink.ask(Ask::text("Where?"));
    let answers = async {
        settle().await;
        let asked = handle.open_questions();
        let prompts: Vec<_> = asked.iter().map(|ask| &*ask.prompt).collect();
        assert_eq!(prompts, ["Who?", "Where?"]);
        assert_ne!(asked[0].request_id, asked[1].request_id);
        for (ask, answer) in asked.iter().zip(["me", "here"]) {
            let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert!(ask.request_id.len() == 32 && ask.request_id.bytes().all(digit));
            assert_eq!(
                handle.answer(&ask.request_id, answer),
                Ok(AnswerOutcome::Accepted)
            );
        }
    };
    let (first, second, ()) = tokio::join!(first, second, answers);
    assert_eq!((first.unwrap(), second.unwrap()), (json!("me"), json!("here")));
}

/// A policy that drops events never drops a question.
#[tokio::test(start_paused = true)]
async fn a_question_is_never_dropped() {
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_frames(1))
        .start(|sink: Sink| async move {
            let sink = sink.drop_when_full(["sources", "input_requested", "input_resolved"]);
            // The reader takes the first one, and the second one fills the queue.
            sink.send(Search::new("bm25")).await?;
            sink.send(Search::new("bm25")).await?;
            sink.send(Sources::new(vec![Source::new("c", "d", "x", Vec::new())]))
                .await?;
            asks(approval(), sink).await
        });
    let turn = turn.commit().await.unwrap();
    let handle = turn.handle();
    let answer = async {
        tokio::time::sleep(SECOND).await;
        handle.answer("r1", "Approve")
    };
    let (answered, read) = tokio::join!(answer, drain(turn.stream(&Framed::default())));
    assert_eq!(answered, Ok(AnswerOutcome::Accepted));
    let expected = framed(",\"response\":\"Approve\"", "answer \"Approve\"");
    let expected = expected.replace("\"tools_used\":[]", "\"tools_used\":[],\"events_dropped\":1");
    assert_eq!(read, format!("{SEARCH}{SEARCH}{expected}"));
}

/// The orchestrator gets its answer even if the wire cannot write it.
#[tokio::test(start_paused = true)]
async fn an_answer_may_be_too_long_for_the_wire() {
    let limits = QueueLimits::default().max_event_bytes(200);
    let long = "x".repeat(200);
    let turn = Turn::builder()
        .queue(limits)
        .start(|sink| asks(Ask::text("Who?").request_id("r1"), sink));
    let turn = turn.commit().await.unwrap();
    assert_eq!(turn.handle().answer("r1", &*long), Ok(AnswerOutcome::Accepted));
    let collected = turn.collect().await.unwrap();
    let names: Vec<_> = collected.events.iter().map(|(event, _)| event.name()).collect();
    assert_eq!(names, ["input_requested"]);
    assert_eq!(collected.text, format!("answer {long:?}"));
    assert_eq!(collected.end.metadata.events_dropped, 1);
}

/// Closed questions are remembered up to a limit.
#[tokio::test(start_paused = true)]
async fn old_answers_are_evicted() {
    let (sink, turn) = Turn::builder().channel();
    let handle = turn.handle();
    let reading = async { turn.commit().await.unwrap().collect().await.unwrap() };
    let asking = async move {
        for n in 0..33 {
            let id = n.to_string();
            let asked = sink.ask(Ask::text("Who?").request_id(&id));
            let answer = async {
                settle().await;
                handle.answer(&id, n)
            };
            let (answer, answered) = tokio::join!(asked, answer);
            assert_eq!(
                (answer.unwrap(), answered),
                (json!(n), Ok(AnswerOutcome::Accepted))
            );
        }
        assert_eq!(handle.answer("0", 0), Err(AnswerError::Unknown));
        for n in 1..33 {
            assert_eq!(handle.answer(&n.to_string(), n), Ok(AnswerOutcome::Same));
        }
        sink.finish(Metadata::default()).unwrap();
    };
    tokio::join!(asking, reading);
}

/// Of many concurrent answers exactly one is accepted, and the orchestrator gets that one.
#[test]
fn one_of_many_answers_is_accepted() {
    const THREADS: u32 = 8;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for round in 0..200 {
        let (sink, turn) = {
            let _context = runtime.enter();
            Turn::builder().channel()
        };
        let handle = turn.handle();
        let barrier = std::sync::Barrier::new(THREADS as usize);
        let asked = runtime.spawn(async move { sink.ask(Ask::text("Who?").request_id("r")).await });
        while handle.open_questions().is_empty() {
            std::thread::yield_now();
        }
        let (accepted, same) = (AtomicU32::new(0), AtomicU32::new(0));
        let winner = AtomicU32::new(u32::MAX);
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let (handle, barrier) = (&handle, &barrier);
                let (accepted, same, winner) = (&accepted, &same, &winner);
                threads.spawn(move || {
                    // Two threads give the same answer.
                    let answer = thread / 2;
                    barrier.wait();
                    match handle.answer("r", answer) {
                        Ok(AnswerOutcome::Accepted) => {
                            accepted.fetch_add(1, Ordering::SeqCst);
                            winner.store(answer, Ordering::SeqCst);
                        }
                        Ok(AnswerOutcome::Same) => {
                            same.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => assert_eq!(error, AnswerError::Different, "round {round}"),
                    }
                });
            }
        });
        assert_eq!(accepted.into_inner(), 1, "round {round}");
        assert_eq!(same.into_inner(), 1, "round {round}");
        let answer = runtime.block_on(asked).unwrap().unwrap();
        assert_eq!(answer, json!(winner.into_inner()), "round {round}");
    }
}
