//! Streams the progress, answer and citations of a RAG pipeline to its clients while it runs.
//!
//! ```text
//!  orchestrator ──► sink ──► queue ──► turn ──► wire ──► body ──► hyper / axum
//!  (your code)      typed     bounded   orders,   spells   http_body::Body
//!                   events    by frames commits,  bytes    Error = Infallible
//!                             and bytes completes
//! ```
//!
//! Start with [`Turn::start`]: it runs a function that takes a [`Sink`] and returns a turn, which
//! streams everything that the function sends. Once the response has begun nothing can fail: after
//! an error, a panic or a time-out the client still gets a complete stream with an explicit end.
//!
//! There are three layers, and each depends only on those before it:
//!
//! 1. [`event`], [`Frame`] and [`wire`]: the vocabulary and its spellings. No tokio, no http, no
//!    clock; this is what is left with `default-features = false`.
//! 2. `turn` and `session` (feature `turn`): sink, queue, producer task, commit, completion; what
//!    is remembered from turn to turn.
//! 3. `http` (features `http`, `axum` and `ws`): bodies, headers, JSON errors, the WebSocket
//!    gateway.
//!
//! The crate `ragwire-rag` is the reference pipeline on top of them, and uses their public API
//! only.
//!
//! The [`guide`] has a chapter on each of these subjects. The bytes are specified in `PROTOCOL.md`,
//! the design in `ARCHITECTURE.md`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod event;
mod failure;
mod frame;
mod json;
mod metadata;
mod order;
mod record;
mod snapshot;
mod time;
mod utf8;
pub mod wire;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "turn")]
pub mod orchestrator;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "turn")]
pub mod session;
#[cfg(feature = "turn")]
pub mod turn;

pub use event::Event;
pub use event::item::Item;
pub use failure::{Failure, FailureKind};
pub use frame::{End, Frame, Status};
#[cfg(feature = "ws")]
pub use http::gateway::Gateway;
pub use metadata::{Citation, Metadata, QueueStats, Usage};
#[cfg(feature = "turn")]
pub use orchestrator::{Answering, Orchestrator, Question};
pub use order::{FrameKind, Order, OutOfOrder, Phase};
pub use snapshot::Snapshot;
pub use time::{Timestamp, Timing};
#[cfg(feature = "turn")]
pub use turn::{Commit, EventSink, Rejected, SendError, Sink, Timeouts, Turn, TurnId};
pub use wire::ag_ui::AgUi;
pub use wire::ai_sdk::AiSdk;
pub use wire::eve::Eve;
pub use wire::forge::Forge;
pub use wire::framed::Framed;
pub use wire::langgraph::LangGraph;
pub use wire::mcp::Mcp;
pub use wire::ndjson::Ndjson;
pub use wire::ollama::Ollama;
pub use wire::openai::OpenAi;
pub use wire::responses::Responses;
pub use wire::session_chat::SessionChat;
pub use wire::sse::Sse;
pub use wire::trustgraph::TrustGraph;

/// The guide: chapters about one subject each, with code that is compiled as it is printed.
#[cfg(all(any(doc, doctest), feature = "full"))]
pub mod guide {
    /// Adds a chapter. The definitions in front take precedence over those at the end of the file,
    /// so that a link between chapters leads to a file on GitHub and to a module here.
    macro_rules! chapters {
        ($($name:ident = $file:literal;)*) => { $(
            #[doc = "[gateway.md]: crate::guide::gateway"]
            #[doc = "[gateway-orchestrators.md]: crate::guide::gateway_orchestrators"]
            #[doc = "[gpu.md]: crate::guide::gpu"]
            #[doc = "[protocols.md]: crate::guide::protocols"]
            #[doc = "[protocols.md#trustgraph]: crate::guide::protocols#trustgraph"]
            #[doc = "[resuming.md]: crate::guide::resuming"]
            #[doc = "[several-hosts.md]: crate::guide::several_hosts"]
            #[doc = "[wires.md]: crate::guide::wires"]
            #[doc = ""]
            #[doc = include_str!(concat!("../docs/", $file))]
            pub mod $name {}
        )* };
    }

    chapters! {
        resuming = "resuming.md";
        humans = "humans.md";
        wires = "wires.md";
        protocols = "protocols.md";
        gateway = "gateway.md";
        gateway_orchestrators = "gateway-orchestrators.md";
        several_hosts = "several-hosts.md";
        deploying = "deploying.md";
        evaluation = "evaluation.md";
        gpu = "gpu.md";
        benchmarks = "benchmarks.md";
    }
}
