//! Questions to a human, and their answers.

use std::sync::atomic::AtomicU32;

use ragwire::event::{AuthorizationOutcome, Source, Sources};
use ragwire::turn::{
    AnswerError, AnswerOutcome, Ask, AskError, Authorize, Disconnect, Journal, JournalLimits, OpenQuestion,
    TurnHandle,
};
use ragwire::{Ndjson, TurnId};
use serde_json::{Value, json};

use super::*;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Asks once, and says what came of it in the answer.
pub(super) async fn asks(ask: Ask, sink: Sink) -> Result<Metadata, BoxError> {
    let said = match sink.ask(ask).await {
        Ok(answer) => format!("answer {answer}"),
        Err(error) => format!("error {}", error.code()),
    };
    sink.send(said).await?;
    Ok(Metadata::default())
}

/// The same for a consent.
async fn authorizes(authorize: Authorize, sink: Sink) -> Result<Metadata, BoxError> {
    let outcome = sink.authorize(authorize).await?;
    sink.send(format!("outcome {}", outcome.as_str())).await?;
    Ok(Metadata::default())
}

pub(super) fn approval() -> Ask {
    Ask::approval("Delete 3 files?").request_id("r1")
}

/// What the framed wire has for a turn that asks [`approval`] and nothing else.
pub(super) fn framed(resolved: &str, text: &str) -> String {
    format!(
        "{{\"event\":\"input_requested\",\"request_id\":\"r1\",\"kind\":\"approval\",\"prompt\":\"Delete 3 files?\",\
         \"options\":[\"Approve\",\"Reject\"]}}\n\
         {{\"event\":\"input_resolved\",\"request_id\":\"r1\"{resolved}}}\n\x1d{text}{EMPTY}"
    )
}

fn json_lines(resolved: &str, text: &str, elapsed: Duration) -> String {
    format!(
        "{{\"index\":0,\"event\":\"input_requested\",\"request_id\":\"r1\",\"kind\":\"approval\",\"prompt\":\"Delete 3 files?\",\
         \"options\":[\"Approve\",\"Reject\"]}}\n\
         {{\"index\":1,\"event\":\"input_resolved\",\"request_id\":\"r1\"{resolved}}}\n\
         {{\"index\":2,\"text\":\"{text}\"}}\n\
         {{\"index\":3,\"end\":\"completed\",\"metadata\":{{\"citations\":[],\"tools_used\":[]}},\"elapsed_ms\":{}}}\n",
        elapsed.as_millis()
    )
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_on_with_the_turn() {
    for json in [false, true] {
        let turn = Turn::start(|sink| asks(approval(), sink)).commit().await.unwrap();
        let handle = turn.handle();
        let asked = handle.open_questions();
        assert_eq!(asked.len(), 1);
        let OpenQuestion {
            request_id,
            kind,
            prompt,
            options,
            ..
        } = &asked[0];
        assert_eq!(
            (request_id.as_str(), kind.as_str(), prompt.as_str()),
            ("r1", "approval", "Delete 3 files?")
        );
        assert_eq!(options, &["Approve", "Reject"]);
        let answer = async {
            tokio::time::sleep(SECOND).await;
            for (answer, expected) in [
                (json!("approve"), Err(AnswerError::Invalid)),
                (json!(true), Err(AnswerError::Invalid)),
                (Value::Null, Err(AnswerError::Invalid)),
                (json!("Approve"), Ok(AnswerOutcome::Accepted)),
                // Before the orchestrator has noticed …
                (json!("Approve"), Ok(AnswerOutcome::Same)),
                (json!("Reject"), Err(AnswerError::Different)),
            ] {
                assert_eq!(handle.answer("r1", answer.clone()), expected, "{answer}");
            }
            assert_eq!(handle.open_questions(), [], "it is answered");
            // … and after it.
            settle().await;
            assert_eq!(handle.answer("r1", "Approve"), Ok(AnswerOutcome::Same));
            assert_eq!(handle.answer("r1", "Reject"), Err(AnswerError::Different));
            assert_eq!(handle.answer("r2", "Approve"), Err(AnswerError::Unknown));
        };
        let response = ",\"response\":\"Approve\"";
        let text = "answer \\\"Approve\\\"";
        if json {
            let ((), read) = tokio::join!(answer, drain(turn.stream(&Ndjson::default())));
            assert_eq!(read, json_lines(response, text, SECOND));
        } else {
            let ((), read) = tokio::join!(answer, drain(turn.stream(&Framed::default())));
            assert_eq!(read, framed(response, "answer \"Approve\""));
        }
        assert_eq!(
            handle.answer("r1", "Approve"),
            Ok(AnswerOutcome::Same),
            "after the end"
        );
        assert_eq!(handle.answer("r1", "Reject"), Err(AnswerError::Different));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_in_time() {
    for json in [false, true] {
        let ask = approval().within(30 * SECOND);
        let turn = Turn::builder()
            .timeouts(Timeouts::default().keep_alive(None))
            .start(|sink| asks(ask, sink));
        let turn = turn.commit().await.unwrap();
        let (handle, begun) = (turn.handle(), Instant::now());
        let (read, expected) = if json {
            let stream = turn.stream(&Ndjson::default());
            (
                drain(stream).await,
                json_lines("", "error ask_expired", 30 * SECOND),
            )
        } else {
            let stream = turn.stream(&Framed::default());
            (drain(stream).await, framed("", "error ask_expired"))
        };
        assert_eq!(read, expected);
        assert_eq!(begun.elapsed(), 30 * SECOND);
        assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Late));
        assert_eq!(handle.answer("r1", 7), Err(AnswerError::Late));
    }
}

/// What a human may say to each kind of question.
#[tokio::test(start_paused = true)]
async fn answers_fit_their_questions() {
    let long = "x".repeat(16 * 1024 - 2);
    let longer = format!("{long}x");
    let no_options: [&str; 0] = [];
    for (ask, answer, fits) in [
        (Ask::choice("Which?").options(["a", "b"]), json!("b"), true),
        (Ask::choice("Which?").options(["a", "b"]), json!("c"), false),
        (Ask::choice("Which?").options(["a", "b"]), json!(["a"]), false),
        (Ask::choice("Which?"), json!("anything"), true),
        (Ask::approval("May I?").options(["Yes"]), json!("Approve"), false),
        (Ask::approval("May I?").options(no_options), json!(true), true),
        (Ask::text("Who?").options(["me"]), json!("somebody else"), true),
        (Ask::text("Who?"), json!({"first": "A", "last": "B"}), true),
        (Ask::text("Who?"), Value::Null, false),
        (Ask::text("Who?"), json!(long), true),
        (Ask::text("Who?"), json!(longer), false),
        (Ask::new("acme.form", "Which size?"), json!({"width": 7}), true),
    ] {
        let what = format!(
            "{ask:?} {}",
            &answer.to_string()[..20.min(answer.to_string().len())]
        );
        let turn = Turn::start(|sink| asks(ask.request_id("r1"), sink))
            .commit()
            .await
            .unwrap();
        let answered = turn.handle().answer("r1", answer.clone());
        assert_eq!(
            answered,
            if fits {
                Ok(AnswerOutcome::Accepted)
            } else {
                Err(AnswerError::Invalid)
            },
            "{what}"
        );
        assert_eq!(turn.handle().open_questions().is_empty(), fits, "{what}");
        if fits {
            let collected = turn.collect().await.unwrap();
            assert_eq!(collected.text, format!("answer {answer}"), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn consent_is_given_by_a_program() {
    use AuthorizationOutcome::{Authorized, Declined, Failed, TimedOut};
    type Act = fn(&TurnHandle) -> Result<AnswerOutcome, AnswerError>;
    let accepted = Ok(AnswerOutcome::Accepted);
    for (act, expected, outcome) in [
        (
            (|turn| turn.authorized("s", Authorized)) as Act,
            accepted,
            Authorized,
        ),
        (|turn| turn.authorized("s", Failed), accepted, Failed),
        (|turn| turn.answer("s", "declined"), accepted, Declined),
        (
            |turn| turn.answer("s", "authorized"),
            Err(AnswerError::Invalid),
            TimedOut,
        ),
        (
            |turn| turn.authorized("t", Authorized),
            Err(AnswerError::Unknown),
            TimedOut,
        ),
    ] {
        let authorize = Authorize::new("github", "https://github.test/login?state=s")
            .description("To read your issues.")
            .request_id("s")
            .within(5 * SECOND);
        let turn = Turn::start(|sink| authorizes(authorize, sink))
            .commit()
            .await
            .unwrap();
        let handle = turn.handle();
        let asked = &handle.open_questions()[0];
        assert_eq!((&*asked.kind, &*asked.prompt), ("authorization", "github"));
        assert_eq!(asked.options, ["declined"]);
        assert_eq!(act(&handle), expected);
        let word = outcome.as_str();
        assert_eq!(
            drain(turn.stream(&Framed::default())).await,
            format!(
                "{{\"event\":\"authorization_required\",\"connection\":\"github\",\
                 \"auth_url\":\"https://github.test/login?state=s\",\"description\":\"To read your issues.\",\
                 \"request_id\":\"s\"}}\n\
                 {{\"event\":\"authorization_completed\",\"connection\":\"github\",\"outcome\":\"{word}\",\
                 \"request_id\":\"s\"}}\n\x1doutcome {word}{EMPTY}"
            )
        );
        let late = if outcome == TimedOut {
            Err(AnswerError::Late)
        } else {
            Ok(AnswerOutcome::Same)
        };
        let again = match outcome {
            TimedOut => handle.authorized("s", Authorized),
            outcome => handle.authorized("s", outcome),
        };
        assert_eq!(again, late, "{word}");
    }
    // A question is no authorization.
    let turn = Turn::start(|sink| asks(Ask::text("Who?").request_id("r1"), sink))
        .commit()
        .await
        .unwrap();
    let answered = turn.handle().authorized("r1", Authorized);
    assert_eq!(answered, Err(AnswerError::Invalid));
}

/// Whatever ends the turn ends the wait, also where the orchestrator's future is not the one that waits.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_turn_ends_the_wait() {
    type Act = fn(Pending, &Sink) -> Option<Pending>;
    for (what, act, code) in [
        (
            "stop",
            (|turn, _| turn.handle().stop().then_some(turn)) as Act,
            "turn_ended",
        ),
        (
            "fail",
            |turn, _| turn.handle().fail(Failure::default()).then_some(turn),
            "turn_ended",
        ),
        (
            "finish",
            |turn, sink| sink.finish(Metadata::default()).is_ok().then_some(turn),
            "turn_ended",
        ),
        ("disconnect", |_, _| None, "disconnected"),
    ] {
        let (sink, turn) = Turn::builder().channel();
        let handle = turn.handle();
        let asked = {
            let sink = sink.clone();
            async move { sink.ask(approval()).await.unwrap_err().code() }
        };
        let act = async {
            settle().await;
            assert_eq!(handle.open_questions().len(), 1);
            let turn = act(turn, &sink);
            assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Late), "{what}");
            assert_eq!(handle.open_questions(), [], "{what}");
            turn
        };
        let (error, turn) = tokio::time::timeout(ms(10), async { tokio::join!(asked, act) })
            .await
            .unwrap();
        assert_eq!(error, code, "{what}");
        assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Late), "{what}");
        drop(turn);
        let again = sink.ask(approval().request_id("r2")).await.unwrap_err();
        assert_eq!(again.code(), code, "{what}: nothing is asked any more");
    }
}

/// A stop while the turn asks: the question, then the end.
#[tokio::test(start_paused = true)]
async fn a_stop_is_the_last_word() {
    let turn = Turn::start(|sink| asks(approval(), sink)).commit().await.unwrap();
    let handle = turn.handle();
    assert!(handle.stop());
    let question = framed("", "");
    let question = question.split_inclusive('\n').next().unwrap();
    assert_eq!(
        drain(turn.stream(&Framed::default())).await,
        format!("{question}\x1d{STOPPED}")
    );
    assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Late));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_question_withdraws_it() {
    let turn = Turn::start(async move |sink: Sink| {
        let asked = sink.ask(approval());
        tokio::time::timeout(SECOND, asked).await.unwrap_err();
        let consent = sink.authorize(Authorize::new("github", "https://x.test/").request_id("s"));
        tokio::time::timeout(SECOND, consent).await.unwrap_err();
        // Its id stays taken, so that a late answer is not taken for one to another question.
        let again = sink.ask(approval()).await.unwrap_err();
        sink.send(again.code()).await?;
        Ok::<_, SendError>(Metadata::default())
    });
    let handle = turn.handle();
    let collected = turn.commit().await.unwrap();
    let read = drain(collected.stream(&Framed::default())).await;
    let (asked, _) = framed("", "")
        .split_once('\x1d')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(
        read,
        format!(
            "{asked}\
             {{\"event\":\"authorization_required\",\"connection\":\"github\",\"auth_url\":\"https://x.test/\",\"request_id\":\"s\"}}\n\
             {{\"event\":\"authorization_completed\",\"connection\":\"github\",\"outcome\":\"failed\",\"reason\":\"withdrawn\",\"request_id\":\"s\"}}\n\
             \x1dask_in_use{EMPTY}"
        )
    );
    assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Late));
    assert_eq!(handle.answer("s", "declined"), Err(AnswerError::Late));
}

/// No room to say that a question was withdrawn: the metadata counts it. One that was never sent needs no word.
#[tokio::test(start_paused = true)]
async fn a_full_queue_is_not_waited_for() {
    let limits = QueueLimits::default().max_frames(1);
    let (sink, turn) = Turn::builder().queue(limits).channel();
    let handle = turn.handle();
    for id in ["shown", "unseen"] {
        let asked = sink.ask(approval().request_id(id));
        tokio::time::timeout(SECOND, asked).await.unwrap_err();
        assert_eq!(handle.answer(id, "Approve"), Err(AnswerError::Late));
    }
    sink.finish(Metadata::default()).unwrap();
    let collected = turn.commit().await.unwrap().collect().await.unwrap();
    let names: Vec<_> = collected.events.iter().map(|(event, _)| event.name()).collect();
    assert_eq!(names, ["input_requested"]);
    assert_eq!(collected.end.metadata.events_dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_refused() {
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

    // Sixteen wait, each under a name of its own; the next has to wait for one of them.
    let waiting: Vec<_> = (0..16).map(|_| Box::pin(sink.ask(Ask::text("Who?")))).collect();
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let refused = sink.ask(approval()).await.unwrap_err();
    assert!(matches!(refused, AskError::TooMany), "{refused:?}");
    sink.send("nothing of it was sent").await.unwrap();
    let handle = turn.await.unwrap().handle();
    drop(waiting);
    assert_eq!(handle.open_questions(), []);
}

/// Ids that nobody chose: 128 bits each, and no two alike.
#[tokio::test(start_paused = true)]
async fn questions_are_named() {
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

/// A policy that drops events drops no question.
#[tokio::test(start_paused = true)]
async fn a_question_is_never_dropped() {
    let turn = Turn::builder()
        .queue(QueueLimits::default().max_frames(1))
        .start(|sink: Sink| async move {
            let sink = sink.drop_when_full(["sources", "input_requested", "input_resolved"]);
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
    assert_eq!(read, format!("{SEARCH}{expected}"));
}

/// The orchestrator has its answer also where the wire cannot tell it.
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

/// The answers of what is over are remembered, but not for ever.
#[tokio::test(start_paused = true)]
async fn old_answers_are_forgotten() {
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

/// Many answer at once, and one in the same moment gives up: one answer is taken, and it is the one that the orchestrator has.
#[test]
fn of_many_answers_one_is_taken() {
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
                    // Two of them give each answer.
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

#[tokio::test(start_paused = true)]
async fn a_group_finds_the_turn() {
    let group = TurnGroup::new(2);
    let turn = Turn::builder().group(&group).start(|sink| asks(approval(), sink));
    let id = turn.id();
    assert_eq!(TurnId::parse(&id.to_string()), Some(id));
    for text in [
        "",
        "0",
        "+0000000000000000000000000000000",
        "0000000000000000000000000000000G",
    ] {
        assert_eq!(TurnId::parse(text), None, "{text}");
    }
    assert_eq!(TurnId::parse(&"AB".repeat(16)), None);
    assert!(group.get(&TurnId::random()).is_none());
    let turn = turn.commit().await.unwrap();
    let found = group.get(&id).unwrap();
    assert_eq!(found.id(), id);
    assert_eq!(found.answer("r1", "Reject"), Ok(AnswerOutcome::Accepted));
    assert_eq!(turn.collect().await.unwrap().text, "answer \"Reject\"");
    settle().await;
    assert!(group.get(&id).is_none());
    assert_eq!(found.answer("r1", "Approve"), Err(AnswerError::Different));
}

#[tokio::test]
async fn refused_answers_are_http_responses() {
    use http_body_util::BodyExt;
    let turn = TurnId::random();
    for (error, status, code, message) in [
        (
            AnswerError::Unknown,
            404,
            "ask_unknown",
            "There is no such question.",
        ),
        (
            AnswerError::Different,
            409,
            "ask_answered",
            "The question has another answer already.",
        ),
        (
            AnswerError::Late,
            410,
            "ask_over",
            "Nobody waits for this answer any more.",
        ),
        (
            AnswerError::Invalid,
            422,
            "answer_invalid",
            "This is no answer to the question.",
        ),
    ] {
        let response = error.respond(turn);
        assert_eq!(response.status(), status);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            body,
            format!(
                "{{\"error\":{{\"code\":\"{code}\",\"message\":\"{message}\",\"recoverable\":false,\"request_id\":\"{turn}\"}}}}"
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_takes_answers_by_id_and_owner_also_when_it_is_late() {
    let journal = Journal::in_memory(JournalLimits::default());
    let turn = Turn::builder()
        .journal(&journal)
        .owner("alice")
        .on_disconnect(Disconnect::go_on())
        .start(|sink| asks(approval(), sink))
        .commit()
        .await
        .unwrap();
    let id = turn.id();
    drop(turn);
    let answer = async |owner, id, request_id, answer| {
        journal
            .answer(id, owner, request_id, json!(answer))
            .await
            .map_err(AnswerError::code)
    };
    assert_eq!(answer("mallory", id, "r1", "Approve").await, Err("ask_unknown"));
    assert_eq!(
        answer("alice", TurnId::random(), "r1", "Approve").await,
        Err("ask_unknown")
    );
    assert_eq!(answer("alice", id, "r2", "Approve").await, Err("ask_unknown"));
    assert_eq!(answer("alice", id, "r1", "Perhaps").await, Err("answer_invalid"));
    assert_eq!(
        answer("alice", id, "r1", "Approve").await,
        Ok(AnswerOutcome::Accepted)
    );
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        answer("alice", id, "r1", "Approve").await,
        Ok(AnswerOutcome::Same)
    );
    assert_eq!(answer("alice", id, "r1", "Reject").await, Err("ask_answered"));
    let read = journal
        .resume(id, "alice", 0)
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(read.text, "answer \"Approve\"");
}
