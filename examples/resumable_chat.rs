//! Answers that survive their connection: `cargo run --example resumable_chat`, then the curl lines
//! that it prints.
//!
//! Interrupt the first one with Ctrl-C. The others read the rest and stop the turn.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Router, serve};
use ragwire::turn::{Disconnect, Journal, JournalLimits};
use ragwire::{Metadata, Rejected, SendError, Sink, Sse, Turn, TurnId};

/// A placeholder for the authenticated user. Only the owner can resume or stop a turn.
const OWNER: &str = "alice";

async fn answer(question: String, sink: Sink) -> Result<Metadata, SendError> {
    sink.send(format!("You asked {question:?}, ")).await?;
    for second in 1..=60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sink.send(format!("{second} seconds ago, ")).await?;
    }
    Ok(Metadata::default())
}

async fn chat(State(journal): State<Journal>, question: String) -> Result<impl IntoResponse, Rejected> {
    let turn = Turn::builder()
        .journal(&journal)
        .owner(OWNER)
        .on_disconnect(Disconnect::grace(Duration::from_secs(30)))
        .start(|sink| answer(question, sink));
    Ok(turn.commit().await?.respond(Sse::default()))
}

/// An `EventSource` reconnects with the index of the last frame that it has seen. Status 204 tells
/// it to stop.
async fn resume(
    State(journal): State<Journal>,
    Path(turn): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Rejected> {
    let last = headers
        .get("last-event-id")
        .map(|id| id.to_str().ok()?.parse::<u64>().ok());
    let (Some(id), Some(from)) = (
        TurnId::parse(&turn),
        last.map_or(Some(0), |last| last?.checked_add(1)),
    ) else {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    let turn = journal.resume(id, OWNER, from).await?; // Err: 404, 409, 410, 416 or 503
    Ok(turn.respond(Sse::default()).into_response())
}

async fn stop(State(journal): State<Journal>, Path(turn): Path<String>) -> Result<String, Rejected> {
    let id = TurnId::parse(&turn).unwrap_or_else(TurnId::random); // an invalid ID is an unknown one
    Ok(format!("stopped: {}\n", journal.stop(id, OWNER).await?))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    println!("curl -iN http://{address}/chat -d 'why?'  # x-ragwire-turn names the TURN");
    println!("curl -N http://{address}/turns/TURN -H 'last-event-id: 3'  # the frames after index 3");
    println!("curl -X POST http://{address}/turns/TURN/stop");
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    let routes = Router::new()
        .route("/chat", post(chat))
        .route("/turns/{turn}", get(resume))
        .route("/turns/{turn}/stop", post(stop))
        .with_state(Journal::in_memory(JournalLimits::default()));
    serve(listener, routes).await
}
