//! Tests of retries: which requests are retried, how often and after which pause, and which never
//! are.

use std::time::Duration;

use ragwire_rag::models::upstream::{Retry, UpstreamOptions};
use ragwire_rag::models::{LanguageModel, ModelError, Prompt};
use serde_json::json;
use tokio::net::TcpListener;

use crate::upstream::clock::freeze;
use crate::upstream::double::{Double, EVENTS, Reply, Then};
use crate::upstream::{model, outcome, read, within};

const GOOD: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n";
const ROLE: &str =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"hm\"}}]}\n\n";
const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"H\"}}]}\n\n";

/// The step of the clock. The two retries follow pauses of at most 1 and 2 seconds, and each may be
/// up to one step late.
const STEP: Duration = Duration::from_millis(50);

fn thrice(base: &str) -> UpstreamOptions {
    let mut retry = Retry::default();
    (retry.attempts, retry.pause, retry.max_pause) = (3, Duration::from_secs(1), Duration::from_secs(8));
    UpstreamOptions::new(base, "m").unwrap().retry(retry)
}

fn refusal(status: u16) -> Reply {
    Reply::json(status, &json!({"error": {"message": "m"}}))
}

/// A name, bad replies, the number of requests, the least and the most milliseconds of pauses, and
/// the end.
type Case = (&'static str, Vec<Reply>, usize, (u64, u64), &'static str);

fn cases() -> Vec<Case> {
    let good = || Reply::events(GOOD);
    let stays = |status| vec![refusal(status), good()];
    let mut cases: Vec<Case> = vec![
        ("at once", vec![good()], 1, (0, 0), "stop"),
        (
            "twice bad",
            vec![refusal(503), refusal(500), good()],
            3,
            (1_500, 3_000),
            "stop",
        ),
        (
            "too often",
            vec![refusal(503), refusal(503), refusal(503), good()],
            3,
            (1_500, 3_000),
            "model_unavailable upstream_refused",
        ),
        (
            "busy",
            vec![refusal(429), refusal(429), refusal(429)],
            3,
            (1_500, 3_000),
            "model_busy",
        ),
        (
            "page of a proxy",
            vec![Reply::new(502, "text/html", "<html>"), good()],
            2,
            (500, 1_000),
            "stop",
        ),
        (
            "broken head",
            vec![Reply::events("").then(Then::Cut), good()],
            2,
            (500, 1_000),
            "stop",
        ),
        (
            "broken before text",
            vec![Reply::events(ROLE).then(Then::Cut), good()],
            2,
            (500, 1_000),
            "stop",
        ),
        (
            "ended before text",
            vec![Reply::events(ROLE), good()],
            2,
            (500, 1_000),
            "stop",
        ),
        (
            "error before text",
            vec![
                Reply::events(format!("{ROLE}data: {{\"error\":{{\"code\":503}}}}\n\n")),
                good(),
            ],
            2,
            (500, 1_000),
            "stop",
        ),
        (
            "error that stays",
            vec![Reply::events("data: {\"error\":{\"code\":400}}\n\n"), good()],
            1,
            (0, 0),
            "model_failed upstream_error",
        ),
        (
            "broken after text",
            vec![Reply::events(TEXT).then(Then::Cut), good()],
            1,
            (0, 0),
            "model_failed upstream_broken",
        ),
        (
            "ended after text",
            vec![Reply::events(TEXT), good()],
            1,
            (0, 0),
            "model_failed upstream_broken",
        ),
        (
            "error after text",
            vec![
                Reply::events(format!("{TEXT}data: {{\"error\":{{\"code\":503}}}}\n\n")),
                good(),
            ],
            1,
            (0, 0),
            "model_failed upstream_error",
        ),
        (
            "unreadable",
            vec![Reply::events("data: junk\n\n"), good()],
            1,
            (0, 0),
            "model_failed upstream_unreadable",
        ),
        (
            "seconds",
            vec![refusal(429).header("retry-after", "5"), good()],
            2,
            (5_000, 5_000),
            "stop",
        ),
        (
            "no seconds",
            vec![refusal(503).header("retry-after", "0"), good()],
            2,
            (0, 0),
            "stop",
        ),
        (
            "too many seconds",
            vec![refusal(429).header("retry-after", "9"), good()],
            1,
            (0, 0),
            "model_busy",
        ),
        (
            "a date in the past",
            vec![
                refusal(503).header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
                good(),
            ],
            2,
            (0, 0),
            "stop",
        ),
        (
            "a date far in the future",
            vec![
                refusal(503).header("retry-after", "Sat, 06 Nov 2094 08:49:37 GMT"),
                good(),
            ],
            1,
            (0, 0),
            "model_unavailable upstream_refused",
        ),
        (
            "no date",
            vec![refusal(503).header("retry-after", "soon"), good()],
            2,
            (500, 1_000),
            "stop",
        ),
        (
            "no money",
            vec![
                Reply::json(429, &json!({"error": {"code": "insufficient_quota"}})),
                good(),
            ],
            1,
            (0, 0),
            "model_unavailable upstream_refused",
        ),
        (
            "no room",
            vec![
                Reply::json(400, &json!({"error": {"code": "context_length_exceeded"}})),
                good(),
            ],
            1,
            (0, 0),
            "context_overflow",
        ),
        (
            "redirect",
            vec![Reply::new(302, EVENTS, "").header("location", "/"), good()],
            1,
            (0, 0),
            "model_unavailable upstream_refused",
        ),
    ];
    for status in [408, 500, 502, 503, 504] {
        cases.push(("passes", vec![refusal(status), good()], 2, (500, 1_000), "stop"));
    }
    cases.push(("passes", vec![refusal(429), good()], 2, (500, 1_000), "stop"));
    for status in [401, 403, 404, 405, 501, 505] {
        cases.push((
            "stays",
            stays(status),
            1,
            (0, 0),
            if [401, 403, 404, 405].contains(&status) {
                "model_rejected upstream_refused"
            } else {
                "model_unavailable upstream_refused"
            },
        ));
    }
    for status in [400, 413, 422] {
        cases.push(("stays", stays(status), 1, (0, 0), "model_failed upstream_refused"));
    }
    cases
}

#[tokio::test]
async fn temporary_failures_are_retried_before_the_first_text() {
    let frozen = freeze();
    for (name, replies, requests, (least, most), expected) in cases() {
        let (all, double) = (replies.len(), Double::new(replies).await);
        let generation = model(thrice(&double.base)).generate(Prompt::user("Why?"));
        let ((pieces, end), took) = frozen.run(STEP, read(generation)).await;
        assert_eq!(outcome(&end), expected, "{name}");
        assert_eq!(
            (double.recorded().len(), double.left()),
            (requests, all - requests),
            "{name}"
        );
        if expected == "stop" {
            assert_eq!(pieces, ["Hi"], "{name}");
        }
        // Each pause may end a step late, and so may the response to a request while the machine is
        // busy.
        let most = Duration::from_millis(most) + STEP * 20;
        assert!(
            Duration::from_millis(least) <= took && took <= most,
            "{name}: {took:?}"
        );
        // Every attempt sends the same request.
        assert!(
            double.recorded().windows(2).all(|two| two[0].body == two[1].body),
            "{name}"
        );
    }
}

#[tokio::test]
async fn token_counts_that_the_server_reports_are_used() {
    within(async {
        for (body, prompt, limit) in [
            (json!({"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9_000, "n_ctx": 4_096}}), 9_000, 3_996),
            // Estimated by the client, with the limit of the options.
            (json!({"error": {"code": "context_length_exceeded"}}), 18, 900),
            (json!({"message": "This model's maximum context length is 4096 tokens."}), 18, 900),
        ] {
            let double = Double::new([Reply::json(400, &body)]).await;
            let options = thrice(&double.base).context_tokens(1_000);
            let generation = model(options).generate(Prompt::user("Why?").max_tokens(100));
            match read(generation).await.1.unwrap_err() {
                ModelError::Overflow { prompt: tokens, limit: most } => assert_eq!((tokens, most), (prompt, limit), "{body}"),
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_starts_late_is_reached() {
    let frozen = freeze();
    // A port on which no server listens.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let generation = model(thrice(&format!("http://{address}/v1"))).generate(Prompt::user("Why?"));
    let ((_, end), took) = frozen.run(STEP, read(generation)).await;
    assert_eq!(outcome(&end), "model_unavailable upstream_unreachable");
    assert!(
        Duration::from_millis(1_500) <= took && took <= Duration::from_secs(4),
        "{took:?}"
    );
}
