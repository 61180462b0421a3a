//! Tests of `Upstream` against servers on real sockets that send prepared bytes, and against the
//! crate's own OpenAI wire.
#![allow(clippy::disallowed_methods, reason = "servers here are tasks")]
#![allow(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod clock;
mod discover;
mod double;
mod embedder;
mod http_client;
mod outside;
mod requests;
mod retries;
mod scripts;
mod times;
mod tls;
mod wire;

use std::error::Error;
use std::time::Duration;

use ragwire_rag::models::upstream::{Retry, Upstream, UpstreamError, UpstreamOptions};
use ragwire_rag::models::{Generation, GenerationEnd, LanguageModel, ModelError, Prompt};

/// Fails a test that hangs.
async fn within<T>(test: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, test).await.expect("the test hangs")
}

/// Options for a server that is asked once, without retries.
fn once(base: &str) -> UpstreamOptions {
    let mut retry = Retry::default();
    retry.attempts = 1;
    UpstreamOptions::new(base, "m").unwrap().retry(retry)
}

fn model(options: UpstreamOptions) -> Upstream {
    Upstream::new(options).unwrap()
}

fn ask(base: &str) -> Generation {
    model(once(base)).generate(Prompt::user("Why?"))
}

/// Returns all pieces of an answer, and its end.
async fn read(mut generation: Generation) -> (Vec<String>, Result<GenerationEnd, ModelError>) {
    let mut pieces = Vec::new();
    while let Some(piece) = generation.next().await {
        match piece {
            Ok(piece) => pieces.push(piece),
            Err(error) => return (pieces, Err(error)),
        }
    }
    (pieces, Ok(generation.finished().unwrap()))
}

/// Returns `stop`, `length`, or the codes of an error and of its source.
fn outcome(end: &Result<GenerationEnd, ModelError>) -> String {
    match end {
        Ok(finished) => format!("{:?}", finished.reason).to_lowercase(),
        Err(error) => {
            let source = error
                .source()
                .and_then(|source| source.downcast_ref::<UpstreamError>());
            match source {
                Some(source) => format!("{} {}", error.code(), source.code()),
                None => error.code().to_owned(),
            }
        }
    }
}
