//! A bare hyper service that streams a turn: `cargo run --example hyper_chat`, then the curl line
//! that it prints.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::stream;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use ragwire::event::Search;
use ragwire::http::TurnBody;
use ragwire::turn::Reply;
use ragwire::{EventSink, Framed, Metadata, SendError, Turn};

/// The first half of ADR 0007: collects evidence and reports its progress.
async fn collect_evidence(question: String, events: EventSink) -> Result<Vec<&'static str>, SendError> {
    events.send(Search::new("bm25").query(question)).await?;
    tokio::time::sleep(Duration::from_millis(400)).await;
    Ok(vec!["The first frame ", "decides."])
}

async fn chat(request: Request<Incoming>) -> Result<Response<TurnBody>, Infallible> {
    let question = request.uri().query().unwrap_or_default().to_owned();
    let turn = Turn::builder().start_pair(
        |events| collect_evidence(question, events),
        // The second half: a stream of tokens and the metadata of the end.
        |evidence| {
            Reply::new(
                stream::iter(evidence.value.into_iter().map(Ok::<_, SendError>)),
                Metadata::default(),
            )
        },
    );
    Ok(match turn.commit().await {
        Ok(turn) => turn.respond(Framed::default()),
        Err(rejected) => rejected.respond(),
    })
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("curl -N 'http://{}/?why'", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        // Without this a small chunk waits for the client's delayed acknowledgement, 40 ms on
        // Linux.
        socket.set_nodelay(true)?;
        #[expect(clippy::disallowed_methods, reason = "an example's accept loop")]
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            // Limits hyper's buffer for a client that does not read. The default is 400 KiB.
            http.timer(TokioTimer::new()).max_buf_size(64 * 1024);
            let _ = http
                .serve_connection(TokioIo::new(socket), service_fn(chat))
                .await;
        });
    }
}
