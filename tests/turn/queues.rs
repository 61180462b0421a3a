//! The queue between a turn and its reader: what fills it, what passes it, and what its end counts.

use ragwire::Forge;
use ragwire::event::Retract;
use ragwire::http::TurnBody;
use ragwire::turn::CollectError;

use super::*;

#[tokio::test(start_paused = true)]
async fn texts_that_wait_for_a_wire_take_room() {
    let (sink, turn) = Turn::builder()
        .queue(QueueLimits::default().max_bytes(1_000))
        .channel();
    sink.send("x".repeat(990)).await.unwrap();
    sink.send(Search::new("bm25")).await.unwrap();
    assert!(matches!(sink.try_send("y"), Err(TrySendError::Full)));
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn an_empty_piece_needs_no_room() {
    let (sink, turn) = Turn::builder()
        .queue(QueueLimits::default().max_frames(1))
        .channel();
    sink.send(Search::new("bm25")).await.unwrap();
    assert!(matches!(sink.try_send("y"), Err(TrySendError::Full)));
    assert!(matches!(sink.send("").now_or_never(), Some(Ok(()))));
    assert!(matches!(sink.send(&b""[..]).now_or_never(), Some(Ok(()))));
    let turn = turn.commit().await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    // To a turn that has ended an empty text is refused like any other.
    assert_eq!(sink.send("").await.unwrap_err().code(), "turn_ended");
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn the_first_text_begins_the_response_although_events_wait_before_it() {
    let (sink, turn) = Turn::builder().commit_on(Commit::first_text()).channel();
    let mut commit = std::pin::pin!(turn.commit());
    sink.send(Search::new("bm25")).await.unwrap();
    assert!(commit.as_mut().now_or_never().is_none());
    sink.send("a").await.unwrap();
    let turn = commit.now_or_never().unwrap().unwrap();
    drop((sink, turn));
}

#[tokio::test(start_paused = true)]
async fn the_hook_gets_the_answer_without_what_was_withdrawn() {
    let (told, tell) = tokio::sync::oneshot::channel();
    let turn = Turn::builder()
        .before_end(|ending: Ending| async move {
            let _ = told.send(ending.text);
        })
        .start(|sink: Sink| async move {
            sink.send("Yes, \u{e4}h no").await?;
            sink.send(Retract::new(5)).await?;
            // It takes back nothing.
            sink.send(Retract::new(7)).await?;
            sink.send("it is.").await?;
            Ok::<_, SendError>(Metadata::default())
        });
    turn.commit().await.unwrap().collect().await.unwrap();
    assert_eq!(tell.await.unwrap(), "Yes, it is.");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_waits_for_its_wire_counts_the_events_that_do_not_fit_it() {
    let small = || Forge::default().limits(Limits::default().max_line_bytes(100));
    for has_ended in [true, false] {
        let (sink, turn) = Turn::builder().channel();
        for _ in 0..2 {
            sink.send(Reasoning::new("x".repeat(200))).await.unwrap();
        }
        let turn = turn.commit().await.unwrap();
        if has_ended {
            sink.finish(Metadata::default()).unwrap();
            settle().await;
        }
        let stream = turn.stream(&small());
        let _ = sink.finish(Metadata::default());
        let read = drain(stream).await;
        assert!(read.contains("\"events_dropped\":2"), "{read}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_a_turn_that_has_sent_nothing_is_not_behind() {
    let timeouts = Timeouts::default().write_stall(ms(100));
    let (sink, turn) = Turn::builder()
        .commit_on(Commit::deadline(ms(0)))
        .timeouts(timeouts)
        .channel();
    let stream = turn.commit().await.unwrap().stream(&Framed::default());
    // It does not poll, as a client that has room.
    tokio::time::sleep(ms(500)).await;
    sink.send("a").await.unwrap();
    sink.finish(Metadata::default()).unwrap();
    assert_eq!(drain(stream).await, format!("\x1da{EMPTY}"));
}

/// Only a client that does not take the end loses its place early.
#[tokio::test(start_paused = true)]
async fn a_connection_that_has_the_end_keeps_its_place_until_it_is_closed() {
    let group = TurnGroup::new(1);
    let turn = Turn::builder()
        .group(&group)
        .start(|sink| play(&[Text("a")], sink));
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    while stream.next().await.is_some() {}
    tokio::time::sleep(2 * Timeouts::WRITE_STALL).await;
    assert_eq!(group.active(), 1);
    drop(stream);
    assert_eq!(group.active(), 0);
}

/// Allows the server to end the response in the same write as the last chunk.
#[tokio::test(start_paused = true)]
async fn a_body_knows_that_its_last_chunk_was_taken() {
    use http_body_util::BodyExt;
    let turn = Turn::start(|sink| play(&[Text("a"), Wait(1), Text("b")], sink));
    let response = turn.commit().await.unwrap().respond(Framed::default());
    let mut body: TurnBody = response.into_body();
    let mut ends = Vec::new();
    while let Some(frame) = body.frame().await {
        ends.push((
            plain(&frame.unwrap().into_data().unwrap()),
            http_body::Body::is_end_stream(&body),
        ));
    }
    assert_eq!(ends, [("\x1da".to_owned(), false), (format!("b{DONE}"), true)]);
}

/// A server takes a number of pieces ahead of a client that reads nothing, whatever their length.
#[tokio::test(start_paused = true)]
async fn a_body_has_pieces_of_at_most_8_kib() {
    use http_body_util::BodyExt;
    let text: String = (0..3_000).map(|at| format!("{at:>9} ")).collect();
    let turn = Turn::start({
        let text = text.clone();
        |sink: Sink| async move {
            for piece in text.as_bytes().chunks(10_000) {
                sink.send(std::str::from_utf8(piece).unwrap().to_owned()).await?;
            }
            Ok::<_, SendError>(Metadata::default())
        }
    });
    let response = turn.commit().await.unwrap().respond(Framed::default());
    let mut body: TurnBody = response.into_body();
    let (mut lengths, mut whole, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let piece = frame.unwrap().into_data().unwrap();
        lengths.push(piece.len());
        ends.push(http_body::Body::is_end_stream(&body));
        whole.extend_from_slice(&piece);
    }
    assert_eq!(plain(&whole), format!("\x1d{text}{EMPTY}"));
    assert!(lengths.iter().all(|length| *length <= 8 * 1024), "{lengths:?}");
    assert!(lengths.contains(&(8 * 1024)), "{lengths:?}");
    assert_eq!(ends.iter().filter(|ended| **ended).count(), 1);
    assert_eq!(ends.last(), Some(&true));
}

#[tokio::test(start_paused = true)]
async fn a_collected_turn_has_4_mib_of_text_and_10_000_events() {
    const MAX_TEXT: usize = 4 * 1024 * 1024;
    const MAX_EVENTS: usize = 10_000;
    for (text, events, is_kept) in [
        (MAX_TEXT, 1, true),
        (MAX_TEXT + 1, 1, false),
        (1, MAX_EVENTS, true),
        (1, MAX_EVENTS + 1, false),
    ] {
        let turn = Turn::start(move |sink: Sink| async move {
            for _ in 0..events {
                sink.send(Search::new("bm25")).await?;
            }
            sink.send("x".repeat(text)).await?;
            Ok::<_, SendError>(Metadata::default())
        });
        let collected = turn.commit().await.unwrap().collect().await;
        let seen = collected.map(|collected| (collected.text.len(), collected.events.len()));
        match seen {
            Ok(seen) => assert!(is_kept && seen == (text, events), "{seen:?}"),
            Err(error) => assert!(!is_kept && matches!(error, CollectError::TooLarge), "{error:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_a_lane_keeps_its_owner_and_does_not_count_for_it() {
    let group = TurnGroup::builder().max_active(3).max_per_owner(1).build();
    let journal = ragwire::turn::Journal::in_memory(ragwire::turn::JournalLimits::default());
    let start = |builder: TurnBuilder| {
        let turn = builder
            .group(&group)
            .journal(&journal)
            .owner("alice")
            .start(|sink| play(&[Text("a"), Wait(50)], sink));
        turn.commit()
    };
    let first = start(Turn::builder()).await.unwrap();
    let refused = start(Turn::builder()).await.unwrap_err();
    assert_eq!(refused.failure.code(), "too_many");
    let free = {
        let turn = Turn::builder()
            .group(&group)
            .journal(&journal)
            .owner("alice")
            .no_lane()
            .start(|sink| play(&[Text("b"), Wait(50)], sink));
        turn.commit().await.unwrap()
    };
    let id = free.id();
    assert_eq!(
        journal
            .resume(id, "mallory", 0)
            .await
            .map(drop)
            .unwrap_err()
            .code(),
        "unknown_turn"
    );
    assert!(journal.resume(id, "alice", 0).await.is_ok());
    drop((first, free));
}
