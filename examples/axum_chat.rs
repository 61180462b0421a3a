//! An axum handler that streams a turn: `cargo run --example axum_chat`, then the curl line that it
//! prints.

use std::time::Duration;

use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Router, serve};
use ragwire::event::{RetrievalResult, RetrievalStart};
use ragwire::{Citation, Framed, Metadata, Rejected, SendError, Sink, Turn};

/// A placeholder for your retrieval function: it takes a sink and reports its progress.
async fn answer(question: String, sink: Sink) -> Result<Metadata, SendError> {
    sink.send(RetrievalStart::new("bm25", &question, 1)).await?;
    tokio::time::sleep(Duration::from_millis(400)).await;
    sink.send(RetrievalResult::new("bm25", 1, 400).top_score(7.5))
        .await?;
    for word in [
        "The first ",
        "frame ",
        "decides: ",
        "before it ",
        "a failure is ",
        "a status [1].",
    ] {
        sink.send(word).await?;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let citation = Citation::new("adr-7", "adr-7-2", "return JSON 500 as before", "bm25").page_number(2);
    Ok(Metadata::default().citations(vec![citation]).tools_used(["bm25"]))
}

async fn chat(question: String) -> Result<impl IntoResponse, Rejected> {
    let turn = Turn::start(|sink| answer(question, sink)).commit().await?;
    Ok(turn.respond(Framed::default()))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("curl -N http://{}/chat -d 'why?'", listener.local_addr()?);
    // Without TCP_NODELAY a small chunk waits for the client's delayed acknowledgement, 40 ms on
    // Linux.
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    serve(listener, Router::new().route("/chat", post(chat))).await
}
