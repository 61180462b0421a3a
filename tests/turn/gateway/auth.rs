//! Authentication by the first frame.

use std::sync::atomic::{AtomicUsize, Ordering};

use ragwire::http::gateway::{Identity, Token};

use super::*;

/// The name that belongs to a token.
#[derive(Clone, Debug, PartialEq)]
struct Name(&'static str);

async fn authenticate(token: Token) -> Result<Identity, &'static str> {
    assert_eq!(format!("{token:?}"), "Token(..)");
    match token.reveal() {
        "alice's" => Ok(Identity::default().with(Name("alice")).default_workspace("hers")),
        "bob's" => Ok(Identity::default().with(Name("bob"))),
        "panic" => panic!("the token requests a panic"),
        "never" => std::future::pending().await,
        _ => Err("no such token"),
    }
}

/// Returns a gateway that answers each request with the name of the client.
fn gateway() -> GatewayBuilder {
    Gateway::builder()
        .authenticate(authenticate)
        .service("graph-rag", ServiceKind::GraphRag, |call: Call| {
            let name = call.identity.unwrap().get::<Name>().unwrap().0;
            Turn::start(async move |sink: Sink| {
                sink.send(name).await?;
                Ok::<_, BoxError>(Metadata::default())
            })
            .commit()
        })
}

fn token(token: &str) -> Value {
    json!({"type": "auth", "token": token})
}

const FAILED: &str = r#"{"type":"auth-failed","error":"auth failure"}"#;

#[tokio::test]
async fn nothing_is_served_before_a_token_is_accepted() {
    for server in [Server::Hyper, Server::Axum] {
        let mut client = server.connect(&gateway().build()).await;
        client.ask("1").await;
        client.expect([error("1", "auth-required", "auth failure")]).await;
        for refused in [
            token("mallory's"),
            token(""),
            token("panic"),
            json!({"type": "auth"}),
            json!({"type": "auth", "token": 7}),
        ] {
            client.send(refused).await;
            client.ask("2").await;
            client
                .expect([FAILED.into(), error("2", "auth-required", "auth failure")])
                .await;
        }
        client.send(token("alice's")).await;
        client.ask("3").await;
        let answer = client.texts(4).await;
        assert_eq!(
            answer,
            [
                r#"{"type":"auth-ok","default_workspace":"hers"}"#.into(),
                chunk("3", "alice"),
                marker("3"),
                last("3"),
            ]
        );
    }
}

#[tokio::test]
async fn a_client_may_authenticate_again() {
    let mut client = Server::Hyper.connect(&gateway().build()).await;
    client.send(token("alice's")).await;
    client.text().await;
    // A refused token changes nothing.
    client.send(token("mallory's")).await;
    client.ask("1").await;
    client
        .expect([FAILED.into(), chunk("1", "alice"), marker("1"), last("1")])
        .await;
    client.send(token("bob's")).await;
    client.ask("2").await;
    client
        .expect([
            r#"{"type":"auth-ok"}"#.into(),
            chunk("2", "bob"),
            marker("2"),
            last("2"),
        ])
        .await;
}

#[tokio::test]
async fn without_a_hook_every_token_is_accepted() {
    let mut client = Server::Axum.connect(&Stage::default().gateway().build()).await;
    for message in [token("x"), token(""), json!({"type": "auth"})] {
        client.send(message).await;
        client.expect([r#"{"type":"auth-ok"}"#.into()]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_authenticate_in_time_is_disconnected() {
    for token_message in [None, Some(token("mallory's")), Some(token("never"))] {
        let (mut client, socket) = piped(&gateway().build()).await;
        let begun = tokio::time::Instant::now();
        if let Some(token_message) = token_message {
            let fails_at_once = token_message == token("mallory's");
            client.send(token_message).await;
            if fails_at_once {
                client.expect([FAILED.into()]).await;
            }
        }
        client.expect_close(1008, "not authenticated").await;
        assert_eq!(begun.elapsed().as_secs(), 10);
        finished(socket).await;
    }
}

/// A hook that does not answer counts as a refusal. Meanwhile running requests continue and new
/// ones wait.
#[tokio::test(start_paused = true)]
async fn a_hook_that_takes_too_long_refuses() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let gateway = gateway()
        .service("clock", ServiceKind::GraphRag, move |_| {
            let counter = Arc::clone(&counter);
            Turn::start(async move |sink: Sink| {
                for _ in 0..15 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    sink.send("tick").await?;
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                Ok::<_, BoxError>(Metadata::default())
            })
            .commit()
        })
        .build();
    let (mut client, _socket) = piped(&gateway).await;
    client.send(token("alice's")).await;
    client.text().await;
    client
        .send(json!({"id": "c", "service": "clock", "request": {"streaming": true}}))
        .await;
    client.expect([chunk("c", "tick")]).await;
    client.send(token("never")).await;
    client.ask("1").await;
    let mut ticks = 1;
    loop {
        let message = client.text().await;
        if message == FAILED {
            break;
        }
        assert_eq!(message, chunk("c", "tick"));
        ticks += 1;
    }
    assert!((10..=12).contains(&ticks), "{ticks}");
    let after = client.texts(3).await;
    assert!(after.contains(&chunk("1", "alice")), "{after:?}");
}
