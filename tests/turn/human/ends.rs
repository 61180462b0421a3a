//! Questions that end without an answer.

use super::*;

/// Every end of the turn ends the wait, also if another future than the orchestrator's waits.
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
        assert_eq!(again.code(), code, "{what}: no further question is asked");
    }
}

/// A stop during a question: the stream has the question and then the end.
#[tokio::test(start_paused = true)]
async fn a_stop_follows_the_question() {
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

/// Also if the question is the first frame, after which an orchestrator gives way.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_dropped_at_once_is_withdrawn() {
    let turn = Turn::start(async move |sink: Sink| {
        let mut asked = Box::pin(sink.ask(approval()));
        assert!(
            std::future::poll_fn(|cx| std::task::Poll::Ready(asked.as_mut().poll(cx).is_pending())).await
        );
        drop(asked);
        Ok::<_, SendError>(Metadata::default())
    });
    let read = drain(turn.commit().await.unwrap().stream(&Framed::default())).await;
    let (asked, _) = framed("", "")
        .split_once('\x1d')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert_eq!(read, format!("{asked}\x1d{EMPTY}"));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_question_withdraws_it() {
    let turn = Turn::start(async move |sink: Sink| {
        let asked = sink.ask(approval());
        tokio::time::timeout(SECOND, asked).await.unwrap_err();
        let consent = sink.authorize(Authorize::new("github", "https://x.test/").request_id("s"));
        tokio::time::timeout(SECOND, consent).await.unwrap_err();
        // Its ID stays in use, so that a late answer cannot reach another question.
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

/// If the queue has no room for the withdrawal, the metadata counts it. A question that was never
/// sent is not counted.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_does_not_wait_for_room() {
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
