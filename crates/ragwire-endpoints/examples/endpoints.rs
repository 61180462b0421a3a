//! An orchestrator in every protocol: `cargo run -p ragwire-endpoints --example endpoints`, then
//! point `useChat`, an AG-UI agent, an SDK of OpenAI or `curl` at the address that it prints.

use ragwire::event::Search;
use ragwire::{Citation, Metadata, Question, SendError, Sink};
use ragwire_endpoints::Endpoints;

async fn answer(question: Question, sink: Sink) -> Result<Metadata, SendError> {
    sink.send(Search::new("bm25").query(&question.prompt)).await?;
    for word in ["The first ", "frame ", "decides ", "[1]."] {
        sink.send(word).await?;
    }
    let citation = Citation::new("adr-7", "adr-7-2", "the first frame decides", "bm25");
    Ok(Metadata::default().citations(vec![citation]).tools_used(["bm25"]))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, Endpoints::new(answer).router()).await
}
