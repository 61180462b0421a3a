//! Behaviour that needs several threads or appears in the logs.

use super::*;

/// In real time: if an orchestrator blocks its thread, the reader checks the time limits, one
/// second later.
///
/// The separate runtime represents the other threads of a server. A runtime whose threads are all
/// blocked has no timers.
#[tokio::test]
async fn an_orchestrator_that_blocks_its_thread_times_out() {
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

/// The last value of a field.
fn last(fields: &[(String, String)], name: &str) -> Option<String> {
    let field = fields.iter().rfind(|field| field.0 == name);
    field.map(|field| field.1.trim_matches('"').to_owned())
}

#[tokio::test(start_paused = true)]
async fn logs_report_the_outcome_but_no_content() {
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
        let id = turn.id();
        let read = read(turn).await;
        drop(guard);
        let fields = capture.0.lock().unwrap().clone();
        let last = |name: &str| last(&fields, name);
        assert_eq!(last("id"), Some(id.short()), "{steps:?}");
        assert!(!format!("{fields:?}").contains(&id.to_string()), "{fields:?}");
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

#[tokio::test(start_paused = true)]
async fn logs_have_the_times_of_the_first_event_and_the_first_text() {
    let capture = Capture::default();
    let guard = tracing::subscriber::set_default(capture.clone());
    let turn = Turn::start(|sink| play(&[Wait(250), Report, Wait(500), Text("a")], sink));
    read(turn).await.unwrap();
    drop(guard);
    let fields = capture.0.lock().unwrap().clone();
    let times = ["first_event_ms", "first_text_ms"].map(|name| last(&fields, name));
    assert_eq!(times, ["250.0", "750.0"].map(|time| Some(time.to_owned())));
}

#[tokio::test]
async fn a_runtime_that_shuts_down_ends_its_turns() {
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
    assert_eq!((&*collected.text, failure.code()), ("a", "chat_failed"));
}
