//! Random input never causes a panic and never disturbs other requests.

use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::*;

/// Generates text that is often almost a valid message.
fn message() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        Just(json!(null)),
        Just(json!("run")),
        Just(json!("x")),
        Just(json!("")),
        Just(json!(7)),
        Just(json!({})),
        Just(json!({"query": "nobody", "streaming": true})),
        Just(json!("graph-rag")),
        Just(json!("auth")),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("id"),
        Just("type"),
        Just("service"),
        Just("request"),
        Just("token"),
        Just("flow"),
        Just("workspace"),
    ];
    prop_oneof![
        4 => proptest::collection::vec((name, value), 0..6)
            .prop_map(|members| Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()).to_string()),
        1 => ".{0,40}",
        1 => "[\\[\\]{}\",:0-9a-z\\\\]{0,40}",
    ]
}

fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    /// Sends random text messages: the running ID still gets all its messages in order, and
    /// one end.
    #[test]
    fn any_messages_leave_a_running_id_alone(messages in proptest::collection::vec(message(), 0..12)) {
        // Only a request that names the ID may end it.
        prop_assume!(!messages.iter().any(|message| message.contains("cancel")));
        run(async {
            let stage = Stage::default();
            let part = stage.part("the-running-one");
            let (mut client, socket) = piped(&stage.gateway().build()).await;
            client.send(request("run", "the-running-one")).await;
            part.send_text("first").await;
            client.expect([chunk("run", "first")]).await;
            for message in &messages {
                client.send(message).await;
            }
            part.send_text("second").await;
            drop(part);
            let mut of_run = Vec::new();
            while of_run.last() != Some(&last("run")) {
                let message = client.text().await;
                let value: Value = serde_json::from_str(&message).unwrap();
                if value["id"] == "run" {
                    of_run.push(message);
                }
            }
            assert_eq!(of_run, [chunk("run", "second"), marker("run"), last("run")]);
            drop(client);
            finished(socket).await;
        });
    }

    /// Sends random bytes instead of frames: the socket ends, its task does not panic, and its
    /// running requests are dropped.
    #[test]
    fn any_bytes_end_the_socket_at_worst(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        run(async {
            let stage = Stage::default();
            let part = stage.part("run");
            let (mut client, socket) = piped(&stage.gateway().build()).await;
            client.ask("run").await;
            part.send_text("first").await;
            client.expect([chunk("run", "first")]).await;
            // The socket may be closed before all bytes are written.
            let _ = client.0.get_mut().write_all(&bytes).await;
            drop(client);
            finished(socket).await;
            part.gone.await.unwrap();
        });
    }
}
