//! Refused messages, which do not disturb running requests.

use ragwire::http::gateway::GatewayLimits;

use super::*;

#[tokio::test]
async fn refused_messages_disturb_nothing() {
    let stage = Stage::default();
    let run = stage.part("run");
    let limits = GatewayLimits::default().max_id_bytes(8);
    let mut client = Server::Hyper
        .connect(&stage.gateway().limits(limits).build())
        .await;
    client.ask("run").await;
    run.send_text("first").await;
    client.expect([chunk("run", "first")]).await;

    let not_json = || no_id("error", "The message is not a JSON object.");
    let bad_id = || no_id("bad-id", "The request has no usable id.");
    let duplicate = || {
        r#"{"error":{"message":"A request with this id is still running.","type":"duplicate-id"},"refused_id":"run","complete":true}"#
            .to_owned()
    };
    let deep = format!(
        r#"{{"id":"d","request":{}{}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let cases: &[(&str, String)] = &[
        ("", not_json()),
        ("hello", not_json()),
        ("null", not_json()),
        ("[]", not_json()),
        ("42", not_json()),
        (r#"{"id":"a""#, not_json()),
        (r#"{"id":"a"}{}"#, not_json()),
        ("\u{feff}{}", not_json()),
        (r#"{"id":"\ud800"}"#, not_json()),
        (&deep, not_json()),
        ("{}", bad_id()),
        (r#"{"service":"graph-rag","request":{}}"#, bad_id()),
        (r#"{"id":null,"service":"graph-rag","request":{}}"#, bad_id()),
        (r#"{"id":7,"service":"graph-rag","request":{}}"#, bad_id()),
        (r#"{"id":{"a":1},"service":"graph-rag","request":{}}"#, bad_id()),
        (r#"{"id":"","service":"graph-rag","request":{}}"#, bad_id()),
        (
            r#"{"id":"123456789","service":"graph-rag","request":{}}"#,
            bad_id(),
        ),
        (r#"{"type":"cancel"}"#, bad_id()),
        (r#"{"type":"cancel","id":1}"#, bad_id()),
        (
            r#"{"id":"12345678","service":"odd","request":{}}"#,
            error("12345678", "unknown-service", "unknown service"),
        ),
        (
            r#"{"id":"a","request":{}}"#,
            error("a", "unknown-service", "unknown service"),
        ),
        (
            r#"{"id":"a","service":"graph-rag"}"#,
            error("a", "error", "`request` is not an object."),
        ),
        (
            r#"{"id":"a","service":"graph-rag","request":"q"}"#,
            error("a", "error", "`request` is not an object."),
        ),
        (
            r#"{"id":"a","service":1,"request":{}}"#,
            error("a", "error", "`service` is not a string."),
        ),
        (
            r#"{"id":"a","service":"graph-rag","flow":[],"request":{}}"#,
            error("a", "error", "`flow` is not a string."),
        ),
        (
            r#"{"id":"a","service":"graph-rag","workspace":1,"request":{}}"#,
            error("a", "error", "`workspace` is not a string."),
        ),
        (
            r#"{"id":"a","service":"graph-rag","request":{"streaming":"yes"}}"#,
            error("a", "error", "`streaming` is not a boolean."),
        ),
        (
            r#"{"id":"run","service":"graph-rag","request":{"query":"run"}}"#,
            duplicate(),
        ),
        // The duplicate ID takes precedence over other errors: an error under the ID would end the
        // first request for its client.
        (r#"{"id":"run"}"#, duplicate()),
        (r#"{"id":"run","service":"odd","request":{}}"#, duplicate()),
        (
            r#"{"id":"run","service":"graph-rag","request":{"streaming":1}}"#,
            duplicate(),
        ),
        (r#"{"type":"auth","id":"run"}"#, r#"{"type":"auth-ok"}"#.into()),
        (r#"{"type":"cancel","id":"other"}"#, String::new()),
    ];
    for (message, expected) in cases {
        client.send(message).await;
        if !expected.is_empty() {
            assert_eq!(client.text().await, *expected, "{message:.80}");
        }
    }

    run.send_text("second").await;
    drop(run);
    client
        .expect([chunk("run", "second"), marker("run"), last("run")])
        .await;
}

#[tokio::test]
async fn the_number_of_ids_is_bounded() {
    let stage = Stage::default();
    let (a, b) = (stage.part("a"), stage.part("b"));
    let limits = GatewayLimits::default().max_calls(2);
    let mut client = Server::Axum
        .connect(&stage.gateway().limits(limits).build())
        .await;
    for id in ["a", "b", "c"] {
        client.ask(id).await;
    }
    let full = || {
        error(
            "c",
            "too-many-requests",
            "Too many requests are running on this socket.",
        )
    };
    client.expect([full()]).await;
    // The duplicate ID is reported before any other error.
    client.ask("a").await;
    client
        .expect([r#"{"error":{"message":"A request with this id is still running.","type":"duplicate-id"},"refused_id":"a","complete":true}"#.into()])
        .await;
    a.send_text("x").await;
    drop(a);
    client.expect([chunk("a", "x"), marker("a"), last("a")]).await;
    let c = stage.part("c");
    client.ask("c").await;
    c.send_text("z").await;
    client.expect([chunk("c", "z")]).await;
    client.ask("d").await;
    client
        .expect([error(
            "d",
            "too-many-requests",
            "Too many requests are running on this socket.",
        )])
        .await;
    drop((b, c));
    let mut ends = client.texts(4).await;
    ends.sort();
    let mut expected = [marker("b"), last("b"), marker("c"), last("c")];
    expected.sort();
    assert_eq!(ends, expected);
}

/// Messages that are refused while the client reads nothing are reported later, each one
/// separately.
#[tokio::test(start_paused = true)]
async fn no_refusal_is_lost_on_a_slow_socket() {
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, |_| {
            Turn::start(async |sink: Sink| {
                sink.send("x".repeat(40_000)).await?;
                Ok::<_, BoxError>(Metadata::default())
            })
            .commit()
        })
        .build();
    let (mut client, _socket) = piped(&gateway).await;
    client.ask("1").await;
    // The pipe is full now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for id in ["a", "b", "c"] {
        client
            .send(json!({"id": id, "service": "odd", "request": {}}))
            .await;
    }
    let mut messages = client.texts(6).await;
    messages.sort();
    let refused = |id| error(id, "unknown-service", "unknown service");
    let mut expected = [
        chunk("1", &"x".repeat(40_000)),
        marker("1"),
        last("1"),
        refused("a"),
        refused("b"),
        refused("c"),
    ];
    expected.sort();
    assert_eq!(messages, expected);
}
