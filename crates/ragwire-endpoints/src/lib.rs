//! Every chat protocol for any RAG orchestrator, as one router.
//!
//! [`Endpoints`] takes an [`Orchestrator`](ragwire::Orchestrator), which an async function is, and
//! serves it to the published clients of each [`Protocol`]:
//!
//! ```no_run
//! use ragwire::event::Search;
//! use ragwire::{Metadata, Question, SendError, Sink};
//! use ragwire_endpoints::Endpoints;
//!
//! async fn answer(question: Question, sink: Sink) -> Result<Metadata, SendError> {
//!     sink.send(Search::new("bm25").query(&question.prompt)).await?;
//!     sink.send("Forty-two.").await?;
//!     Ok(Metadata::default())
//! }
//!
//! # async fn serve() -> std::io::Result<()> {
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, Endpoints::new(answer).router()).await
//! # }
//! ```
//!
//! | protocol | routes | module |
//! |---|---|---|
//! | ADR 0007 | `POST /v1/rag/sessions/{session_id}/messages/stream` and its JSON twin | [`rag`] |
//! | ragwire's own wires | `POST /v1/turns` | [`turns`] |
//! | all but TrustGraph | `GET /v1/turns/{turn_id}/stream`, `POST …/stop`, `POST …/answer` | [`turns`] |
//! | AI SDK (`useChat`) | `POST /api/chat`, with the routes to resume and to stop | [`ai_sdk`] |
//! | AG-UI | `POST /ag-ui` | [`ag_ui`] |
//! | OpenAI | `POST /v1/chat/completions`, `GET /v1/models…` | [`openai`] |
//! | OpenAI Responses | `/v1/responses…` | [`responses`] |
//! | Ollama | `POST /api/chat`, `GET /api/tags`, … | [`ollama`] |
//! | Forge | `POST /api/query/stream` | [`forge`] |
//! | session chat | `/v1/sessions…`, `GET /v1/generation/status` | [`session_chat`] |
//! | Eve | `/eve/v1/…` | [`eve`] |
//! | LangGraph | `/threads…`, `/runs…`, `/assistants…`, `GET /info` | [`langgraph`] |
//! | MCP | `POST /mcp` | [`mcp`] |
//! | TrustGraph | `GET /api/v1/socket`, `POST /api/v1/flow/{flow}/service/{service}` | [`trustgraph`] |
//!
//! [`owner_header`] and [`Endpoints::owner`] determine the owner of a request, [`Refusal`] is every
//! refused request, [`Bodies`] reads bodies with limits, and [`body`] parses them.
//!
//! # Handlers of your own
//!
//! Each protocol's module has its request type, which axum's `Json` or [`body::json`] reads, and
//! whose method `question` returns the [`Question`](ragwire::Question); of MCP, whose messages are
//! those of a connection, it has the arguments of the tool `ask`:
//!
//! ```
//! use axum::Json;
//! use axum::response::IntoResponse;
//! use ragwire::{AiSdk, Metadata, Question, SendError, Sink, Turn};
//! use ragwire_endpoints::Refusal;
//! use ragwire_endpoints::ai_sdk::ChatRequest;
//!
//! async fn answer(question: Question, sink: Sink) -> Result<Metadata, SendError> {
//!     sink.send(format!("You asked: {}", question.prompt)).await?;
//!     Ok(Metadata::default())
//! }
//!
//! async fn chat(Json(request): Json<ChatRequest>) -> Result<impl IntoResponse, Refusal> {
//!     let question = request.question()?; // Err: a JSON 422 response
//!     let turn = Turn::start(|sink| answer(question, sink)).commit().await?;
//!     Ok(turn.respond(AiSdk::default()))
//! }
//!
//! let app: axum::Router = axum::Router::new().route("/chat", axum::routing::post(chat));
//! ```
//!
//! # What the code is made of
//!
//! ```text
//!  request ──► owner.rs ──► ai_sdk.rs, openai/, eve/, … ──► start.rs ──► Turn ──► response
//!              whose it is   parse with body.rs and          session,     the
//!                            messages.rs, choose the wire    lane, turn   orchestrator
//! ```

pub mod ag_ui;
pub mod ai_sdk;
mod bodies;
pub mod body;
mod caller;
mod chats;
mod client;
mod endpoints;
pub mod eve;
pub mod forge;
mod human;
mod lane;
pub mod langgraph;
mod limits;
pub mod mcp;
mod messages;
pub mod ollama;
pub mod openai;
pub mod openapi;
mod origin;
mod owner;
mod parameters;
mod protocol;
pub mod rag;
mod records;
mod refusal;
mod request;
mod request_id;
pub mod responses;
mod search;
pub mod session_chat;
mod shared;
mod start;
pub mod trustgraph;
pub mod turns;
mod upgrade;

pub use bodies::{Bodies, ReceivedBody};
pub use client::{ClientShare, Peer};
pub use endpoints::{Endpoints, Service};
pub use limits::EndpointLimits;
pub use owner::owner_header;
pub use protocol::Protocol;
pub use refusal::Refusal;
pub use request_id::RequestId;
pub use upgrade::SocketSlot;
