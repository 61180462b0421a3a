//! A reader that stops reading, in front of an orchestrator that writes as fast as it can.

use std::time::Duration;

use ragwire::orchestrator::Orchestrator;
use ragwire::{Question, Turn};
use ragwire_server::gateway::Gateway;
use ragwire_server::settings::Settings;
use ragwire_server::settings::engines::Address;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::double::{Double, Step, chunk, head, last};
use super::gateway;

/// Bytes of one line.
const LINE: usize = 16 * 1024;
/// More than all buffers of two sockets of this machine, which grow to some megabytes each.
const BUFFERS: usize = 24 << 20;

/// An answer of so many bytes.
fn long(bytes: usize) -> Vec<Step> {
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(LINE));
    vec![
        head("application/x-ndjson"),
        Step::Repeat(line, bytes / LINE),
        chunk("{\"end\":\"completed\"}\n"),
        last(),
    ]
}

/// Without a journal nothing is read ahead of the reader: the orchestrator's own writes wait.
#[tokio::test]
async fn a_slow_reader_slows_the_orchestrator() {
    let double = Double::start(vec![long(8 * BUFFERS)]).await;
    let settings = Settings {
        orchestrator: Address(Some(double.url.clone())),
        ..Settings::default()
    };
    let gateway = Gateway::start(settings.gateway_options().unwrap().unwrap()).unwrap();
    let turn = Turn::start(move |sink| gateway.answer(Question::new("Why?"), sink));
    let _unread = turn.commit().await.unwrap();
    let mut before = usize::MAX;
    while double.flooded() != before {
        before = double.flooded();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!((1..BUFFERS).contains(&before), "{before} bytes were written");
}

/// With a journal, as in the server, readers are independent of the turn: the orchestrator is not
/// slowed, and what is kept for the reader is limited by the journal.
#[tokio::test]
async fn a_stalled_reader_takes_no_more_memory_than_the_journal_allows() {
    let double = Double::start(vec![long(BUFFERS)]).await;
    let server = gateway(&double.url, |_| ());
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let body = r#"{"prompt":"Why?"}"#;
    let request = format!(
        "POST /v1/turns HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
         accept: application/x-ndjson\r\ncontent-length: {}\r\n\r\n{body}",
        server.address(),
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 64];
    socket.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"), "{first:?}");
    let limit = *server.app.settings.journal_turn_size;
    while double.flooded() < BUFFERS {
        let stored = server.app.journal.bytes();
        assert!(stored <= limit, "{stored} bytes are stored");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(socket);
    server.until_idle().await;
}
