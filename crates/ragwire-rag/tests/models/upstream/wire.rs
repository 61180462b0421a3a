//! Reads back the crate's own OpenAI wire: `Upstream` returns what a real turn sends over a real
//! socket.

use std::convert::Infallible;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use ragwire::event::Search;
use ragwire::http::TurnBody;
use ragwire::turn::BoxError;
use ragwire::wire::openai::{OnFailure, Progress};
use ragwire::{Citation, Metadata, OpenAi, Sink, Turn, Usage};
use tokio::net::TcpListener;

use crate::upstream::{ask, outcome, read, within};

/// A turn that searches, writes, and then completes or fails as requested.
async fn write(sink: Sink, fails: bool) -> Result<Metadata, BoxError> {
    sink.send(Search::new("bm25").query("why")).await?;
    for text in ["Because\n", "of \"", "\u{1f44b}", "\u{1e}\"", "", " \u{e9}."] {
        sink.send(text).await?;
    }
    if fails {
        return Err("s3cret".into());
    }
    let citation = Citation::new("doc-1", "c-7", "of \"", "bm25");
    let usage = Usage::default().input_tokens(12).output_tokens(34);
    Ok(Metadata::default().citations(vec![citation]).usage(usage))
}

async fn serve(wire: OpenAi, fails: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let respond = move |_: Request<Incoming>| {
        let wire = wire.clone();
        async move {
            let turn = Turn::start(move |sink: Sink| write(sink, fails));
            let response: Response<TurnBody> = match turn.commit().await {
                Ok(turn) => turn.respond(wire),
                Err(rejected) => rejected.respond(),
            };
            Ok::<_, Infallible>(response)
        }
    };
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let respond = respond.clone();
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http
                    .serve_connection(TokioIo::new(socket), service_fn(respond))
                    .await;
            });
        }
    });
    base
}

#[tokio::test]
async fn a_turn_is_read_back_unchanged() {
    within(async {
        let text = "Because\nof \"\u{1f44b}\u{1e}\" \u{e9}.";
        for progress in [Progress::Extension, Progress::Comment, Progress::None] {
            let wire = OpenAi::new("chatcmpl-1", 1_767_323_045, "rag")
                .with_usage()
                .progress(progress);
            let base = serve(wire.clone(), false).await;
            let (whole, finished) = ask(&base).whole().await.unwrap();
            assert_eq!(whole, text);
            assert_eq!(
                (finished.prompt_tokens, finished.answer_tokens),
                (Some(12), Some(34)),
                "{progress:?}"
            );
            // A failure in the middle of the answer is also reported as a failure.
            let base = serve(wire.clone(), true).await;
            let (pieces, end) = read(ask(&base)).await;
            assert_eq!(
                (pieces.concat(), outcome(&end)),
                (text.into(), "model_failed upstream_error".into()),
                "{progress:?}"
            );
            // Unless the wire is configured to put it into the text.
            let base = serve(wire.on_failure(OnFailure::Text), true).await;
            let (pieces, end) = read(ask(&base)).await;
            assert!(pieces.concat().starts_with(text) && pieces.concat().len() > text.len());
            assert_eq!(outcome(&end), "stop");
        }
    })
    .await;
}
