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
//! | Forge | `POST /api/query/stream` | [`forge`] |
//! | session chat | `/v1/sessions…`, `GET /v1/generation/status` | [`session_chat`] |
//! | Eve | `/eve/v1/…` | [`eve`] |
//! | TrustGraph | `GET /api/v1/socket`, `POST /api/v1/flow/{flow}/service/{service}` | [`trustgraph`] |
//!
//! [`request`] and [`body`] read requests, [`owner_header`] and [`Endpoints::owner`] determine
//! their owner, and [`Refusal`] is every refused request.

pub mod ag_ui;
pub mod ai_sdk;
pub mod body;
mod endpoints;
pub mod eve;
pub mod forge;
mod lane;
mod limits;
mod messages;
pub mod openai;
pub mod openapi;
mod owner;
mod protocol;
pub mod rag;
mod refusal;
mod request;
pub mod session_chat;
mod shared;
mod start;
pub mod trustgraph;
pub mod turns;
mod upgrade;

pub use endpoints::{Endpoints, Service};
pub use limits::EndpointLimits;
pub use owner::owner_header;
pub use protocol::Protocol;
pub use refusal::Refusal;
pub use upgrade::SocketSlot;
