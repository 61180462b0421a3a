//! Tests of time limits, and of the cancellation of requests whose answer is no longer read.

use std::time::Duration;

use ragwire_rag::models::upstream::{
    EmbeddingOptions, Upstream, UpstreamEmbedder, UpstreamOptions, UpstreamRanker, UpstreamTimeouts,
};
use ragwire_rag::models::{Embed, LanguageModel, Prompt, Rank, Side};
use serde_json::json;

use crate::upstream::clock::freeze;
use crate::upstream::double::{Double, Reply, Then};
use crate::upstream::{model, outcome, read, within};

const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"H\"}}]}\n\n";
const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n";
const REASON: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn impatient(base: &str) -> Upstream {
    let mut times = UpstreamTimeouts::default();
    times.first = Duration::from_secs(20);
    times.idle = Duration::from_secs(10);
    times.total = Duration::from_secs(60);
    model(UpstreamOptions::new(base, "m").unwrap().timeouts(times))
}

#[tokio::test]
async fn silence_fails_a_generation_and_is_not_retried() {
    let frozen = freeze();
    let hang = |script: &str| Reply::events(script).then(Then::Hang);
    for (name, reply, expected, seconds) in [
        (
            "no head",
            Reply::silent(),
            "model_unavailable upstream_timeout",
            20,
        ),
        ("head alone", hang(""), "model_unavailable upstream_timeout", 20),
        (
            "comments alone",
            hang(": a\n\n: b\n\n"),
            "model_unavailable upstream_timeout",
            20,
        ),
        (
            "after the role",
            hang(ROLE),
            "model_unavailable upstream_timeout",
            10,
        ),
        ("after text", hang(TEXT), "model_failed upstream_timeout", 10),
        (
            "half an event",
            hang(&format!("{TEXT}{}", &TEXT[..20])),
            "model_failed upstream_timeout",
            10,
        ),
        // The text is complete; only the usage is missing.
        ("after the reason", hang(&format!("{TEXT}{REASON}")), "stop", 5),
        (
            "one piece",
            Reply::new(200, "application/json", "{").then(Then::Hang),
            "model_unavailable upstream_timeout",
            10,
        ),
        // The status of a refusal counts, even if its body does not arrive.
        (
            "no reason",
            Reply::new(404, "application/json", "{").then(Then::Hang),
            "model_rejected upstream_refused",
            5,
        ),
    ] {
        let double = Double::new([reply, hang("")]).await;
        let generation = impatient(&double.base).generate(Prompt::user("Why?"));
        let step = Duration::from_millis(250);
        let ((_, end), took) = frozen.run(step, read(generation)).await;
        assert_eq!(outcome(&end), expected, "{name}");
        assert_eq!(double.recorded().len(), 1, "{name}");
        let expected = Duration::from_secs(seconds);
        // On a busy machine the clock may be some steps ahead of the sockets.
        assert!(
            expected <= took && took <= expected + step * 20,
            "{name}: {took:?}"
        );
        // The client reads the rest of a complete answer, so that the connection can be reused.
        frozen.run(step, double.closed(1)).await;
    }
}

/// A turn waits for these, and continues without them.
#[tokio::test]
async fn silence_fails_a_search_sooner_than_the_embedding_of_documents() {
    let frozen = freeze();
    let step = Duration::from_millis(250);
    let mut times = UpstreamTimeouts::default();
    (times.search, times.first) = (Duration::from_secs(15), Duration::from_secs(40));
    let options = |double: &Double| UpstreamOptions::new(&double.base, "m").unwrap().timeouts(times);
    let vector = json!({"data": [{"index": 0, "embedding": [1, 2]}]});
    let near = |seconds, took| {
        let expected = Duration::from_secs(seconds);
        assert!(expected <= took && took <= expected + step * 20, "{took:?}");
    };
    for (side, seconds) in [(Side::Query, 15), (Side::Passage, 40)] {
        let double = Double::new([Reply::json(200, &vector), Reply::silent()]).await;
        let connecting = UpstreamEmbedder::connect(options(&double), EmbeddingOptions::default());
        let embedder = frozen.run(step, connecting).await.0.unwrap();
        let (found, took) = frozen.run(step, embedder.embed(side, vec!["why".into()])).await;
        let error = found.unwrap_err();
        assert_eq!(outcome(&Err(error)), "model_unavailable upstream_timeout");
        near(seconds, took);
    }
    let scores =
        json!({"results": [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": 0.0}]});
    let double = Double::new([Reply::json(200, &scores), Reply::silent()]).await;
    let ranker = frozen
        .run(step, UpstreamRanker::connect(options(&double)))
        .await
        .0
        .unwrap();
    let (found, took) = frozen.run(step, ranker.rank("why", vec!["because".into()])).await;
    let error = found.unwrap_err();
    assert_eq!(outcome(&Err(error)), "model_unavailable upstream_timeout");
    near(15, took);
}

#[tokio::test]
async fn a_reader_that_stalls_does_not_occupy_a_server_forever() {
    let frozen = freeze();
    let double = Double::new([Reply::events(TEXT.repeat(1_000)).then(Then::Hang)]).await;
    let mut generation = impatient(&double.base).generate(Prompt::user("Why?"));
    let step = Duration::from_secs(1);
    let ((), took) = frozen.run(step, double.closed(1)).await;
    assert!(
        Duration::from_secs(60) <= took && took <= Duration::from_secs(80),
        "{took:?}"
    );
    let mut pieces = 0;
    let error = loop {
        match generation.next().await.unwrap() {
            Ok(_) => pieces += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(
        (pieces, outcome(&Err(error)).as_str()),
        (64, "model_failed upstream_timeout")
    );
}

// Other systems refuse connections if the backlog is full.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_address_that_drops_connections_is_unavailable() {
    let frozen = freeze();
    // A full backlog: the kernel drops further connections, as a firewall does.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let _listener = socket.listen(1).unwrap();
    let mut held = Vec::new();
    for _ in 0..8 {
        held.push(tokio::spawn(tokio::net::TcpStream::connect(address)));
    }
    crate::upstream::clock::settle().await;
    let generation = impatient(&format!("http://{address}/v1")).generate(Prompt::user("Why?"));
    let ((_, end), took) = frozen.run(Duration::from_millis(500), read(generation)).await;
    assert_eq!(outcome(&end), "model_unavailable upstream_unreachable");
    // Three attempts of 5 seconds, and two pauses.
    assert!(
        took >= Duration::from_secs(15) && took <= Duration::from_secs(30),
        "{took:?}"
    );
}

#[tokio::test]
async fn dropping_a_generation_closes_its_connection() {
    within(async {
        let hang = |script: &str| Reply::events(script).then(Then::Hang);
        for (name, reply, read) in [
            ("before the head", Reply::silent(), 0),
            ("before the first text", hang(ROLE), 0),
            ("in the middle", hang(&TEXT.repeat(3)), 2),
            ("while its reader is behind", hang(&TEXT.repeat(1_000)), 0),
        ] {
            let double = Double::new([reply]).await;
            let mut generation =
                model(UpstreamOptions::new(&double.base, "m").unwrap()).generate(Prompt::user("Why?"));
            double.requests(1).await;
            for _ in 0..read {
                assert_eq!(generation.next().await.unwrap().unwrap(), "H", "{name}");
            }
            drop(generation);
            double.closed(1).await;
            assert_eq!((double.opened(), double.recorded().len()), (1, 1), "{name}");
        }
        // Also during the pause before a retry.
        let double = Double::new([Reply::new(503, "text/plain", "").header("retry-after", "8")]).await;
        let generation =
            model(UpstreamOptions::new(&double.base, "m").unwrap()).generate(Prompt::user("Why?"));
        double.requests(1).await;
        drop(generation);
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(double.recorded().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_reused_for_the_next_answer() {
    within(async {
        let good = || Reply::events(format!("{TEXT}{REASON}data: [DONE]\n\n"));
        let double = Double::new((0..200).map(|_| good())).await;
        let model = model(UpstreamOptions::new(&double.base, "m").unwrap());
        // The last bytes are read after the end of the answer, so an immediate request may not find
        // the connection reusable. That does not happen every time.
        while double.opened() == double.recorded().len() {
            let (text, _) = model.generate(Prompt::user("Why?")).whole().await.unwrap();
            assert_eq!(text, "H");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_half_a_minute() {
    let frozen = freeze();
    let double = Double::new([Reply::events(format!("{TEXT}{REASON}data: [DONE]\n\n"))]).await;
    let model = impatient(&double.base);
    let answer = model.generate(Prompt::user("Why?")).whole();
    let (answer, _) = frozen.run(Duration::from_millis(1), answer).await;
    assert_eq!(answer.unwrap().0, "H");
    let ((), idle) = frozen.run(Duration::from_secs(1), double.closed(1)).await;
    assert!(
        (Duration::from_secs(28)..=Duration::from_secs(35)).contains(&idle),
        "{idle:?}"
    );
}

#[test]
fn without_a_runtime_a_generation_fails_and_does_not_panic() {
    let model = model(UpstreamOptions::new("http://127.0.0.1:1/v1", "m").unwrap());
    let generation = model.generate(Prompt::user("Why?"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(
        outcome(&runtime.block_on(read(generation)).1),
        "model_unavailable"
    );
}
