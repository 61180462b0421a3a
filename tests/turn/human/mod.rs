//! Questions to a human, and their answers.

mod ends;
mod limits;
mod unseen;
mod waits;

use ragwire::event::AuthorizationOutcome;
use ragwire::turn::{
    AnswerError, AnswerOutcome, Ask, Authorize, Disconnect, Journal, JournalLimits, OpenQuestion, TurnHandle,
};
use ragwire::{Ndjson, TurnId};
use serde_json::{Value, json};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Asks once and answers with the outcome.
async fn asks(ask: Ask, sink: Sink) -> Result<Metadata, BoxError> {
    let outcome = match sink.ask(ask).await {
        Ok(answer) => format!("answer {answer}"),
        Err(error) => format!("error {}", error.code()),
    };
    sink.send(outcome).await?;
    Ok(Metadata::default())
}

/// Requests consent once and answers with the outcome.
async fn authorizes(authorize: Authorize, sink: Sink) -> Result<Metadata, BoxError> {
    let outcome = sink.authorize(authorize).await?;
    sink.send(format!("outcome {}", outcome.as_str())).await?;
    Ok(Metadata::default())
}

fn approval() -> Ask {
    Ask::approval("Delete 3 files?").request_id("r1")
}

/// The bytes of a turn on the framed wire that only asks [`approval`].
fn framed(resolved: &str, text: &str) -> String {
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
async fn an_answer_continues_the_turn() {
    for json in [false, true] {
        let turn = Turn::start(|sink| asks(approval(), sink)).commit().await.unwrap();
        let handle = turn.handle();
        let open = handle.open_questions();
        assert_eq!(open.len(), 1);
        let OpenQuestion {
            request_id,
            kind,
            prompt,
            options,
            ..
        } = &open[0];
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
                // Before the orchestrator has received it …
                (json!("Approve"), Ok(AnswerOutcome::Same)),
                (json!("Reject"), Err(AnswerError::Different)),
            ] {
                assert_eq!(handle.answer("r1", answer.clone()), expected, "{answer}");
            }
            assert_eq!(handle.open_questions(), [], "the question has its answer");
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
async fn an_unanswered_question_expires() {
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

/// The valid answers to each kind of question.
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
        (Ask::text("Who?").options(["me"]), json!("someone else"), true),
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
        let open = &handle.open_questions()[0];
        assert_eq!((&*open.kind, &*open.prompt), ("authorization", "github"));
        assert_eq!(open.options, ["declined"]);
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
    // A question is not an authorization.
    let turn = Turn::start(|sink| asks(Ask::text("Who?").request_id("r1"), sink))
        .commit()
        .await
        .unwrap();
    let answered = turn.handle().authorized("r1", Authorized);
    assert_eq!(answered, Err(AnswerError::Invalid));
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
    let handle = group.get(&id).unwrap();
    assert_eq!(handle.id(), id);
    assert_eq!(handle.answer("r1", "Reject"), Ok(AnswerOutcome::Accepted));
    assert_eq!(turn.collect().await.unwrap().text, "answer \"Reject\"");
    settle().await;
    assert!(group.get(&id).is_none());
    assert_eq!(handle.answer("r1", "Approve"), Err(AnswerError::Different));
}

#[tokio::test]
async fn rejected_answers_are_http_responses() {
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
async fn a_journal_accepts_answers_by_id_and_owner_without_a_reader() {
    let journal = Journal::in_memory(JournalLimits::default());
    let turn = Turn::builder()
        .journal(&journal)
        .owner("alice")
        .on_disconnect(Disconnect::run_to_end())
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
