//! Questions that the reader's wire would show too late.

use ragwire::turn::{Ask, Authorize, Journal, JournalLimits};
use ragwire::wire::Wire;
use ragwire::wire::openai::Progress;
use ragwire::{OpenAi, Sse, TrustGraph};

use super::*;

/// Plays `before`, asks, and answers with the outcome.
async fn asks_after(before: &'static [Step], ask: Ask, sink: Sink) -> Result<Metadata, BoxError> {
    play(before, sink.clone()).await?;
    // The reader's wire is chosen by now.
    tokio::time::sleep(ms(10)).await;
    let code = match sink.ask(ask).await {
        Ok(_) => "answered",
        Err(error) => error.code(),
    };
    sink.send(code).await?;
    Ok(Metadata::default())
}

fn ask() -> Ask {
    Ask::approval("Really?").within(SECOND)
}

/// A wire, the steps before the question, the question, and its outcome.
type Case = (Box<dyn Wire>, &'static [Step], Ask, &'static str);

fn openai(progress: Progress) -> Box<dyn Wire> {
    Box::new(OpenAi::new("c", 0, "rag").progress(progress))
}

#[tokio::test(start_paused = true)]
async fn hidden_questions_are_rejected() {
    let framed = || Box::new(Framed::default());
    let cases: Vec<Case> = vec![
        (framed(), &[Report], ask(), "ask_expired"),
        (framed(), &[Report, Text("Half ")], ask(), "ask_unseen"),
        (framed(), &[Text("Half ")], ask().shown_elsewhere(), "ask_expired"),
        (Box::new(Sse::default()), &[Text("Half ")], ask(), "ask_expired"),
        (
            Box::new(TrustGraph::graph_rag("1").streaming(true)),
            &[Text("a")],
            ask(),
            "ask_expired",
        ),
        (
            Box::new(TrustGraph::graph_rag("1")),
            &[Report],
            ask(),
            "ask_unseen",
        ),
        (openai(Progress::Extension), &[Text("a")], ask(), "ask_expired"),
        (openai(Progress::None), &[Report], ask(), "ask_unseen"),
    ];
    for (wire, before, ask, code) in cases {
        let turn = Turn::builder()
            .timeouts(Timeouts::default().keep_alive(None))
            .start(move |sink| asks_after(before, ask, sink));
        let begun = Instant::now();
        let read = drain(turn.commit().await.unwrap().stream(&wire)).await;
        let waited = begun.elapsed() >= SECOND;
        assert!(read.contains(code), "{wire:?}: {read}");
        assert_eq!(waited, code == "ask_expired", "{wire:?} after {before:?}");
        // A question that was not sent is not resolved either.
        assert_eq!(
            read.contains("input_resolved"),
            read.contains("input_requested"),
            "{read}"
        );
    }
}

/// A question that was sent before the wire was chosen is withdrawn if that wire hides it.
#[tokio::test(start_paused = true)]
async fn a_question_is_withdrawn_if_the_wire_hides_it() {
    for (commit, text, code) in [
        (Commit::first_frame(), Some("Half "), "ask_unseen"),
        (Commit::first_frame(), None, "ask_expired"),
        (Commit::first_text(), Some("Half "), "ask_unseen"),
    ] {
        let (sink, turn) = Turn::builder()
            .commit_on(commit)
            .timeouts(Timeouts::default().keep_alive(None))
            .channel();
        let asked = async {
            if let Some(text) = text {
                sink.send(text).await.unwrap();
            }
            let error = sink.ask(ask()).await.unwrap_err();
            sink.finish(Metadata::default()).unwrap();
            error.code()
        };
        let read = async {
            settle().await;
            drain(turn.commit().await.unwrap().stream(&Framed::default())).await
        };
        let begun = Instant::now();
        let (error, _) = tokio::join!(asked, read);
        assert_eq!(error, code, "{commit:?} {text:?}");
        assert_eq!(begun.elapsed() >= SECOND, code == "ask_expired");
    }
    // The same for a request for consent.
    let (sink, turn) = Turn::builder().channel();
    let asked = async {
        sink.send("Half ").await.unwrap();
        settle().await;
        let consent = Authorize::new("github", "https://x.test/").within(SECOND);
        let error = sink.authorize(consent).await.unwrap_err();
        sink.finish(Metadata::default()).unwrap();
        error.code()
    };
    let read = async { drain(turn.commit().await.unwrap().stream(&Framed::default())).await };
    let (error, _) = tokio::join!(asked, read);
    assert_eq!(error, "ask_unseen");
}

/// A journaled turn may have a reader on another wire.
#[tokio::test(start_paused = true)]
async fn a_journaled_turn_always_asks() {
    let journal = Journal::in_memory(JournalLimits::default());
    let turn = Turn::builder()
        .journal(&journal)
        .start(|sink| asks_after(&[Text("Half ")], ask(), sink));
    let read = drain(turn.commit().await.unwrap().stream(&Framed::default())).await;
    assert!(read.starts_with("\x1dHalf ask_expired\x1e"), "{read}");
}
