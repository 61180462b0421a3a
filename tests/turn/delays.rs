//! The delay of the first text.

use proptest::prelude::*;
use ragwire::event::{Retract, RoundStart};

use super::*;

fn delayed() -> TurnBuilder {
    Turn::builder().delay_first_text(ms(300))
}

const AND_SEARCH: &str = "{\"event\":\"search\",\"tool\":\"bm25\"}";

#[tokio::test(start_paused = true)]
async fn events_overtake_the_first_text_until_no_event_follows_it() {
    for (steps, expected) in [
        // An announcement before a call that takes its time.
        (
            &[
                Text("Let me look. "),
                Wait(299),
                Report,
                Wait(5000),
                Report,
                Text("Forty-two."),
            ][..],
            format!("{SEARCH}{SEARCH}\x1dLet me look. Forty-two.{DONE}"),
        ),
        // Nothing follows in time: it is the answer.
        (
            &[Report, Text("Forty"), Wait(301), Report, Text("-two.")],
            format!(
                "{SEARCH}\x1dForty-two.\x1e{{\"citations\":[],\"tools_used\":[\"bm25\"],\"events\":[{AND_SEARCH}]}}"
            ),
        ),
        // Several texts count from the first one.
        (
            &[Text("a"), Wait(200), Text("b"), Wait(200), Report],
            format!("\x1dab\x1e{{\"citations\":[],\"tools_used\":[\"bm25\"],\"events\":[{AND_SEARCH}]}}"),
        ),
        (&[Text("a")], format!("\x1da{DONE}")),
        (&[Text("a"), Report], format!("{SEARCH}\x1da{DONE}")),
        (
            &[Bytes(b"\xc3"), Report, Bytes(b"\xa4"), Wait(1000), Text("b")],
            format!("{SEARCH}\x1d\u{e4}b{DONE}"),
        ),
        (
            &[Text("a"), Report, Fail],
            format!("{SEARCH}\x1da\n\n{SORRY}{FAILED}"),
        ),
    ] {
        check(delayed(), steps, Ok(expected)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn held_text_arrives_when_it_is_due() {
    let turn = delayed().start(|sink: Sink| async move {
        sink.send(Search::new("bm25")).await?;
        // From another task, which does not wake the turn's own.
        #[expect(clippy::disallowed_methods, reason = "another task is the subject")]
        tokio::spawn(async move { sink.send("Forty").await })
            .await
            .unwrap()?;
        std::future::pending::<()>().await;
        Ok::<_, SendError>(Metadata::default())
    });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    let began = Instant::now();
    assert_eq!(plain(&stream.next().await.unwrap()), SEARCH);
    assert_eq!(stream.next().await.unwrap(), "\x1dForty");
    assert_eq!(began.elapsed(), ms(300));
}

#[tokio::test(start_paused = true)]
async fn a_long_text_is_not_held() {
    let turn = delayed().start(|sink: Sink| async move {
        sink.send("x".repeat(1025)).await?;
        std::future::pending::<()>().await;
        Ok::<_, SendError>(Metadata::default())
    });
    let mut stream = turn.commit().await.unwrap().stream(&Framed::default());
    let began = Instant::now();
    assert_eq!(stream.next().await.unwrap().len(), 1026);
    assert_eq!(began.elapsed(), ms(0));
}

#[tokio::test(start_paused = true)]
async fn keep_alives_continue_while_text_is_held() {
    let turn = delayed()
        .timeouts(Timeouts::default().keep_alive(ms(1000)))
        .start(|sink: Sink| play(&[Text("a"), Report, Wait(2500)], sink));
    assert_eq!(read(turn).await.unwrap(), format!("{SEARCH}\n\n\x1da{DONE}"));
}

#[tokio::test(start_paused = true)]
async fn a_retraction_shortens_held_text() {
    let turn = delayed().start(|sink: Sink| async move {
        sink.send("F\u{f6}rty").await?;
        sink.send(Retract::new(3_u64)).await?;
        sink.send("ever").await?;
        Ok::<_, SendError>(Metadata::default().tools_used(["bm25"]))
    });
    assert_eq!(read(turn).await.unwrap(), format!("\x1dF\u{f6}rever{DONE}"));
}

#[derive(Clone, Debug)]
enum Any {
    Event,
    Text(String),
    Wait(u64),
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// However texts and events follow each other: no text is lost, texts keep their order, events
    /// keep theirs, and without a text in front of it an event never waits.
    #[test]
    fn nothing_is_lost(steps in prop::collection::vec(prop_oneof![
        Just(Any::Event), "[a-z\u{e9}]{1,5}".prop_map(Any::Text), (0..400_u64).prop_map(Any::Wait),
    ], 0..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let sent = steps.clone();
        let collected = runtime.block_on(async move {
            let turn = delayed().start(move |sink: Sink| async move {
                let mut events = 0;
                for step in sent {
                    match step {
                        Any::Event => {
                            events += 1;
                            sink.send(RoundStart::new(events, 9_u32)).await?;
                        }
                        Any::Text(text) => sink.send(text).await?,
                        Any::Wait(after) => tokio::time::sleep(ms(after)).await,
                    }
                }
                Ok::<_, SendError>(Metadata::default())
            });
            turn.commit().await.unwrap().collect().await.unwrap()
        });
        let text: String = steps.iter().map(|step| match step { Any::Text(text) => &**text, _ => "" }).collect();
        prop_assert_eq!(collected.text, text);
        let rounds: Vec<u32> = collected.events.iter().map(|(event, _)| match event { Event::RoundStart(start) => start.round, _ => 0 }).collect();
        let events = steps.iter().filter(|step| matches!(step, Any::Event)).count();
        prop_assert_eq!(rounds, (1..=u32::try_from(events).unwrap()).collect::<Vec<_>>());
    }
}

/// Anything longer than an announcement is the answer.
#[tokio::test(start_paused = true)]
async fn text_of_more_than_1_kib_is_not_held() {
    for (length, is_held) in [(1024, true), (1025, false)] {
        let turn = delayed().start(move |sink: Sink| async move {
            sink.send("x".repeat(length)).await?;
            sink.send(Search::new("bm25")).await?;
            Ok::<_, SendError>(Metadata::default())
        });
        let read = read(turn).await.unwrap();
        assert_eq!(read.starts_with(SEARCH), is_held, "{length}");
    }
}
