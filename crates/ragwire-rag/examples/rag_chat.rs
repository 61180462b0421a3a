//! A chat over your own documents: axum serves an [`Agent`] that searches with BM25 and answers
//! with quoted sentences. No model is needed.
//!
//! ```text
//! cargo run -p ragwire-rag --example rag_chat -- README.md docs
//! curl -N http://127.0.0.1:3000/chat -d 'What is a turn?'
//! ```
//!
//! Arguments are files and folders. Folders are read without their subfolders, and files of an
//! unknown type are skipped.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt;
use axum::{Router, serve};
use ragwire::{AiSdk, Framed, Rejected, Turn};
use ragwire_rag::{Agent, AgentQuestion, Library, LibraryLimits, ParseLimits, parse};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The files of a folder, or the file itself.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir()? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads documents into a library in memory. `Library::open` keeps one on disk instead.
fn read_documents(paths: impl Iterator<Item = PathBuf>) -> Result<Library> {
    let library = Library::in_memory(LibraryLimits::default())?;
    for path in paths {
        for file in files(&path)? {
            let name = file.display().to_string();
            match parse(&name, &std::fs::read(&file)?, &ParseLimits::default()) {
                Ok(parsed) => {
                    library.add(&name, &parsed)?;
                    println!("added {name}");
                }
                Err(error) => println!("skipped {name}: {error}"),
            }
        }
    }
    Ok(library)
}

/// Streams the events and the text of an answer to a question in ragwire's framed protocol.
async fn chat(
    State(agent): State<Agent>,
    question: String,
) -> std::result::Result<impl IntoResponse, Rejected> {
    let question = AgentQuestion::new(question);
    let answer = move |sink| {
        let answer = agent.answer(question, sink);
        // A failure keeps its code: before the first byte it decides the HTTP status.
        async move { answer.await.map_err(|error| error.failure()) }
    };
    let turn = Turn::start(answer).commit().await?;
    Ok(turn.respond(Framed::default()))
}

/// The same, as the stream that the AI SDK's `useChat` reads.
async fn ai_sdk(
    State(agent): State<Agent>,
    question: String,
) -> std::result::Result<impl IntoResponse, Rejected> {
    let question = AgentQuestion::new(question);
    let answer = move |sink| {
        let answer = agent.answer(question, sink);
        async move { answer.await.map_err(|error| error.failure()) }
    };
    let turn = Turn::start(answer).commit().await?;
    Ok(turn.respond(AiSdk::default()))
}

#[tokio::main]
async fn main() -> Result<()> {
    let paths = std::env::args_os().skip(1).map(PathBuf::from);
    let agent = Agent::lexical(Arc::new(read_documents(paths)?));
    let app = Router::new()
        .route("/chat", post(chat))
        .route("/ai-sdk", post(ai_sdk))
        .with_state(agent);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!(
        "curl -N http://{}/chat -d 'your question'",
        listener.local_addr()?
    );
    // Without TCP_NODELAY a small chunk waits for the client's delayed acknowledgement.
    let listener = listener.tap_io(|socket| {
        let _ = socket.set_nodelay(true);
    });
    serve(listener, app).await?;
    Ok(())
}
