//! The protocols, each of which is a set of routes.

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;

use crate::shared::Shared;
use crate::{
    ag_ui, ai_sdk, eve, forge, langgraph, mcp, ollama, openai, rag, responses, session_chat, trustgraph,
    turns,
};

/// A protocol, to select with [`Endpoints::protocols`](crate::Endpoints::protocols).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Protocol {
    /// The two routes of ADR 0007: `POST /v1/rag/sessions/{session_id}/messages` and
    /// `…/messages/stream`.
    Rag,
    /// ragwire's own wires: `POST /v1/turns`.
    Turns,
    /// `useChat` of npm `ai`: `POST /api/chat`, with the routes to resume and to stop.
    AiSdk,
    /// AG-UI: `POST /ag-ui`.
    AgUi,
    /// The SDKs of OpenAI: `POST /v1/chat/completions` and `GET /v1/models`.
    OpenAi,
    /// The Responses API of OpenAI: `/v1/responses…`.
    Responses,
    /// Ollama: `POST /api/chat`, `GET /api/tags` and what else its clients call.
    Ollama,
    /// Forge: `POST /api/query/stream`.
    Forge,
    /// The session chat: `/v1/sessions…` and `GET /v1/generation/status`.
    SessionChat,
    /// Eve: `/eve/v1/…`.
    Eve,
    /// LangGraph Server: `/threads…`, `/runs…`, `/assistants…` and `GET /info`.
    LangGraph,
    /// The Model Context Protocol: `POST /mcp`.
    Mcp,
    /// TrustGraph: `GET /api/v1/socket` and `POST /api/v1/flow/{flow}/service/{service}`.
    TrustGraph,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 13] = [
        Self::Rag,
        Self::Turns,
        Self::AiSdk,
        Self::AgUi,
        Self::OpenAi,
        Self::Responses,
        Self::Ollama,
        Self::Forge,
        Self::SessionChat,
        Self::Eve,
        Self::LangGraph,
        Self::Mcp,
        Self::TrustGraph,
    ];

    /// Returns whether turns of this protocol are recorded, so that their ids can be used with the
    /// routes below `/v1/turns/{turn_id}`.
    pub(crate) fn has_turn_ids(self) -> bool {
        match self {
            Self::Rag
            | Self::Turns
            | Self::AiSdk
            | Self::AgUi
            | Self::OpenAi
            | Self::Responses
            | Self::Ollama
            | Self::Forge
            | Self::SessionChat
            | Self::Eve
            | Self::LangGraph
            | Self::Mcp => true,
            Self::TrustGraph => false,
        }
    }

    /// Returns the routes, with their entries in the OpenAPI document.
    pub(crate) fn routes(self) -> OpenApiRouter<Arc<Shared>> {
        match self {
            Self::Rag => rag::routes(),
            Self::Turns => turns::routes(),
            Self::AiSdk => ai_sdk::routes(),
            Self::AgUi => ag_ui::routes(),
            Self::OpenAi => openai::routes(),
            Self::Responses => responses::routes(),
            Self::Ollama => ollama::routes(),
            Self::Forge => forge::routes(),
            Self::SessionChat => session_chat::routes(),
            Self::Eve => eve::routes(),
            Self::LangGraph => langgraph::routes(),
            Self::Mcp => mcp::routes(),
            Self::TrustGraph => trustgraph::routes(),
        }
    }
}
