//! Several running IDs: interleaved, fair, cancelled, and failing independently.

use ragwire::event::Search;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn two_ids_interleave_in_the_order_of_their_texts() {
    for server in [Server::Hyper, Server::Axum] {
        let stage = Stage::default();
        let (a, b) = (stage.part("a"), stage.part("b"));
        let mut client = server.connect(&stage.gateway().build()).await;
        client.ask("a").await;
        client.ask("b").await;
        b.send_text("b1").await;
        client.expect([chunk("b", "b1")]).await;
        a.send_text("a1").await;
        client.expect([chunk("a", "a1")]).await;
        a.send_text("a2").await;
        client.expect([chunk("a", "a2")]).await;
        b.send_text("b2").await;
        client.expect([chunk("b", "b2")]).await;
        drop(b);
        client.expect([marker("b"), last("b")]).await;
        a.send_text("a3").await;
        drop(a);
        let rest = client.texts(3).await;
        assert_eq!(rest, [chunk("a", "a3"), marker("a"), last("a")], "{server:?}");
    }
}

#[tokio::test]
async fn padding_is_in_the_message_whose_length_it_hides() {
    let stage = Stage {
        pad_to: 256,
        ..Stage::default()
    };
    let part = stage.part("a");
    let mut client = Server::Hyper.connect(&stage.gateway().build()).await;
    client.ask("a").await;
    for word in ["I", " incomprehensibly"] {
        part.send_text(word).await;
        let message = client.text().await;
        assert_eq!((message.len(), message.trim_end()), (256, &*chunk("a", word)));
    }
    drop(part);
    client.expect([marker("a"), last("a")]).await;
}

#[tokio::test]
async fn an_id_may_be_used_again_after_its_last_message() {
    let stage = Stage::default();
    let mut client = Server::Hyper.connect(&stage.gateway().build()).await;
    for _ in 0..3 {
        let part = stage.part("a");
        client.ask("a").await;
        part.send_text("x").await;
        drop(part);
        let answer = client.texts(3).await;
        assert_eq!(answer, [chunk("a", "x"), marker("a"), last("a")]);
    }
}

/// Every service answers like this if the client does not ask for a stream.
#[tokio::test]
async fn without_streaming_there_is_one_message() {
    let stage = Stage::default();
    let mut client = Server::Axum.connect(&stage.gateway().build()).await;
    for (id, service, expected) in [
        (
            "g",
            "graph-rag",
            r#"{"id":"g","response":{"message_type":"chunk","response":"Hello","end_of_stream":true,"end_of_session":true},"complete":true}"#,
        ),
        (
            "d",
            "document-rag",
            r#"{"id":"d","response":{"response":"Hello","end_of_stream":true,"end_of_session":true},"complete":true}"#,
        ),
    ] {
        let part = stage.part(id);
        client
            .send(json!({"id": id, "service": service, "request": {"query": id}}))
            .await;
        part.send_text("Hel").await;
        part.send_text("lo").await;
        drop(part);
        assert_eq!(client.text().await, expected);
    }
}

#[tokio::test]
async fn the_specified_envelope_is_an_option() {
    let stage = Stage::default();
    let mut client = Server::Hyper.connect(&stage.gateway().specified().build()).await;
    let part = stage.part("a");
    client.ask("a").await;
    part.send_text("x").await;
    drop(part);
    let answer = client.texts(2).await;
    assert_eq!(
        answer,
        [
            r#"{"id":"a","response":{"chunk":"x"},"complete":false}"#,
            r#"{"id":"a","response":{"response":"x","end_of_stream":true},"complete":true}"#,
        ]
    );
}

/// One ID always has text to send. Another one sends 100 texts at once and gets every second
/// message, once its first one has left.
#[tokio::test]
async fn an_endless_answer_leaves_every_second_message_to_another_id() {
    const SHORT: usize = 100;
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, |call: Call| {
            let many = if call.query() == "short" {
                SHORT
            } else {
                usize::MAX
            };
            Turn::start(async move |sink: Sink| {
                for _ in 0..many {
                    sink.send(Search::new("bm25")).await?;
                }
                Ok::<_, BoxError>(Metadata::default())
            })
            .commit()
        })
        .build();
    let mut client = Server::Hyper.connect(&gateway).await;
    client.ask("endless").await;
    client.text().await;
    client.ask("short").await;
    let mut of_endless_before = 0;
    let mut of_short = 0;
    loop {
        let message: Value = serde_json::from_str(&client.text().await).unwrap();
        if message["id"] != "short" {
            of_endless_before += 1;
            continue;
        }
        assert!(
            of_short <= 1 || of_endless_before == 1,
            "{of_short}: {of_endless_before}"
        );
        of_endless_before = 0;
        of_short += 1;
        if message["complete"] == true {
            break;
        }
    }
    assert_eq!(of_short, SHORT + 2);
}

#[tokio::test]
async fn the_handler_gets_what_the_client_sent() {
    let (sender, mut calls) = mpsc::channel(1);
    let gateway = Gateway::builder()
        .service("graph-rag", ServiceKind::GraphRag, move |call: Call| {
            let sender = sender.clone();
            async move {
                sender.send(call).await.unwrap();
                Err(Rejected::new(Failure::default()))
            }
        })
        .build();
    let mut client = Server::Hyper.connect(&gateway).await;
    client
        .send(r#"{"id":"1","workspace":"w","service":"graph-rag","flow":"f","request":{"query":"q?","entity-limit":50}}"#)
        .await;
    let call = calls.recv().await.unwrap();
    assert_eq!(
        (call.flow.as_deref(), call.workspace.as_deref()),
        (Some("f"), Some("w"))
    );
    assert_eq!(
        Value::Object(call.request.clone()),
        json!({"query": "q?", "entity-limit": 50})
    );
    assert_eq!(call.query(), "q?");
    assert!(call.identity.is_none());
    client
        .send(r#"{"id":"2","workspace":null,"service":"graph-rag","request":{"streaming":null}}"#)
        .await;
    let call = calls.recv().await.unwrap();
    assert_eq!((call.flow, call.workspace), (None, None));
}

// ---- cancellation ----

#[tokio::test]
async fn a_cancelled_id_ends_once_and_the_other_continues() {
    let stage = Stage::default();
    let (a, b) = (stage.part("a"), stage.part("b"));
    let mut client = Server::Axum.connect(&stage.gateway().build()).await;
    client.ask("a").await;
    client.ask("b").await;
    a.send_text("x").await;
    client.expect([chunk("a", "x")]).await;
    client.send(json!({"type": "cancel", "id": "a"})).await;
    client.send(json!({"type": "cancel", "id": "a"})).await;
    client.send(json!({"type": "cancel", "id": "never"})).await;
    let stopped = client.texts(2).await;
    assert_eq!(
        stopped,
        [
            marker("a"),
            r#"{"id":"a","response":{"message_type":"chunk","response":"","chunk":"","end_of_stream":false,"end_of_session":true,"metadata":{"citations":[],"tools_used":[],"status":"stopped"}},"complete":true}"#.into(),
        ]
    );
    soon(a.gone).await.unwrap();
    b.send_text("y").await;
    drop(b);
    client.expect([chunk("b", "y"), marker("b"), last("b")]).await;
}

#[tokio::test]
async fn a_handler_that_is_cancelled_is_dropped() {
    let stage = Stage::default();
    let a = stage.part("a");
    let mut client = Server::Hyper.connect(&stage.gateway().build()).await;
    // The turn has not sent anything, so the response has not begun.
    client.ask("a").await;
    client.send(json!({"type": "cancel", "id": "a"})).await;
    let stopped = client.texts(2).await;
    assert_eq!(
        stopped,
        [
            marker("a"),
            r#"{"id":"a","response":{"message_type":"chunk","response":"","chunk":"","end_of_stream":false,"end_of_session":true,"metadata":{"citations":[],"tools_used":[],"status":"stopped"}},"complete":true}"#.into(),
        ]
    );
    soon(a.gone).await.unwrap();
}

// ---- failures ----

#[tokio::test]
async fn failures_before_and_after_the_commitment_are_reported_alike() {
    let stage = Stage::default();
    let mut client = Server::Hyper.connect(&stage.gateway().build()).await;
    for step in [Step::Fail, Step::Panic] {
        let part = stage.part("a");
        client.ask("a").await;
        part.steps.send(step).await.unwrap();
        client
            .expect([failed("a", "graph-rag-error", "chat_failed", SORRY)])
            .await;
    }
    for step in [Step::Fail, Step::Panic] {
        let part = stage.part("a");
        client.ask("a").await;
        part.send_text("x").await;
        part.steps.send(step).await.unwrap();
        let answer = client.texts(2).await;
        assert_eq!(
            answer,
            [
                chunk("a", "x"),
                failed("a", "graph-rag-error", "chat_failed", SORRY)
            ]
        );
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[tokio::test]
async fn a_handler_that_panics_ends_its_own_id() {
    let stage = Stage::default();
    let gateway = stage
        .gateway()
        .service("at-once", ServiceKind::GraphRag, |_| -> std::future::Ready<_> {
            panic!("at once")
        })
        .service("later", ServiceKind::GraphRag, |_| async {
            tokio::task::yield_now().await;
            panic!("later")
        })
        .service("dropped", ServiceKind::GraphRag, |_| async {
            let _bomb = Bomb;
            std::future::pending().await
        })
        .build();
    let a = stage.part("a");
    let mut client = Server::Axum.connect(&gateway).await;
    client.ask("a").await;
    a.send_text("x").await;
    client.expect([chunk("a", "x")]).await;
    for service in ["at-once", "later"] {
        client
            .send(json!({"id": service, "service": service, "request": {"streaming": true}}))
            .await;
        client
            .expect([failed(service, "graph-rag-error", "chat_failed", SORRY)])
            .await;
    }
    client
        .send(json!({"id": "d", "service": "dropped", "request": {}}))
        .await;
    client.send(json!({"type": "cancel", "id": "d"})).await;
    client
        .expect([r#"{"id":"d","response":{"message_type":"chunk","response":"","end_of_stream":true,"end_of_session":true,"metadata":{"citations":[],"tools_used":[],"status":"stopped"}},"complete":true}"#.into()])
        .await;
    a.send_text("y").await;
    drop(a);
    client.expect([chunk("a", "y"), marker("a"), last("a")]).await;
}

#[tokio::test]
async fn a_rejection_by_the_handler_is_reported_like_trustgraphs() {
    let gateway = Gateway::builder()
        .service(
            "document-rag",
            ServiceKind::DocumentRag,
            |call: Call| async move {
                let code = call.query().to_owned();
                Err(Rejected::new(Failure::new(code, "No.")))
            },
        )
        .build();
    let mut client = Server::Hyper.connect(&gateway).await;
    for (code, expected) in [
        (Gateway::ACCESS_DENIED, error("1", "access-denied", "No.")),
        (
            Gateway::WORKSPACE_NOT_FOUND,
            error("1", "workspace-not-found", "No."),
        ),
        ("busy", failed("1", "gateway-error", "busy", "No.")),
        ("llm-error", failed("1", "llm-error", "llm-error", "No.")),
        ("odd", failed("1", "document-rag-error", "odd", "No.")),
    ] {
        client
            .send(
                json!({"id": "1", "service": "document-rag", "request": {"query": code, "streaming": true}}),
            )
            .await;
        client.expect([expected]).await;
    }
}
