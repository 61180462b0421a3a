//! The state that all routes share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::FromRequestParts;
use http::HeaderName;
use http::request::Parts;
use ragwire::orchestrator::Searcher;
use ragwire::session::Sessions;
use ragwire::turn::{Disconnect, Journal, TurnGroup, TurnObserver};
use ragwire::{FailureKind, Orchestrator, Timeouts};

use crate::bodies::Bodies;
use crate::client;
use crate::eve::EveSessions;
use crate::limits::EndpointLimits;
use crate::origin::Origins;
use crate::owner::{Owner, OwnerOf};
use crate::records::TurnRecords;
use crate::refusal::Refusal;

/// The state of one set of endpoints.
pub(crate) struct Shared {
    /// Answers questions.
    pub(crate) orchestrator: Arc<dyn Orchestrator>,
    /// Searches without an answer, if the orchestrator can.
    pub(crate) searcher: Option<Arc<dyn Searcher>>,
    /// The running and waiting turns. A turn's lane is its session or its chat, where one question
    /// is answered at a time.
    pub(crate) turns: TurnGroup,
    /// The record of streamed turns, from which they are resumed, stopped and answered.
    pub(crate) journal: Journal,
    /// Receives the figures of each turn.
    pub(crate) observer: Option<Arc<dyn TurnObserver>>,
    /// The stored sessions.
    pub(crate) sessions: Sessions,
    /// The finished turns of the sessions.
    pub(crate) records: TurnRecords,
    /// Whether anonymous callers may list the anonymous sessions.
    pub(crate) lists_anonymous: bool,
    /// The sessions of the Eve routes.
    pub(crate) eve: EveSessions,
    /// Determines the owner of a request; without it all requests are anonymous.
    pub(crate) owner: Option<OwnerOf>,
    /// The pages that may use the routes that browsers reach without asking.
    pub(crate) origins: Origins,
    /// The headers that the orchestrator gets.
    pub(crate) passed_headers: Vec<HeaderName>,
    /// Whether the orchestrator reads the files that clients send.
    pub(crate) accepts_attachments: bool,
    /// Whether the orchestrator emits a result for a JSON schema.
    pub(crate) has_structured_results: bool,
    /// The parameters of OpenAI's requests that the orchestrator honours.
    pub(crate) parameters: Vec<String>,
    /// Whether `POST /api/chat` also answers the clients of Ollama.
    pub(crate) answers_ollama: bool,
    pub(crate) limits: EndpointLimits,
    /// The request bodies that are being read.
    pub(crate) bodies: Bodies,
    pub(crate) timeouts: Timeouts,
    /// How long a turn continues without readers if its client can reconnect.
    pub(crate) disconnect_grace: Duration,
    /// The path in front of every route; empty or `/path`.
    pub(crate) prefix: String,
    /// The name of the only model and agent.
    pub(crate) name: String,
    /// The mode that the routes of ADR 0007 report.
    pub(crate) mode: String,
}

impl Shared {
    /// Determines the owner of a request and stores its client in the extensions.
    pub(crate) fn identify(&self, head: &mut Parts) -> Result<Owner, Refusal> {
        let name = match &self.owner {
            Some(owner_of) => owner_of(head)?,
            None => None,
        };
        let owner = name.map_or_else(|| Ok(Owner::anonymous()), Owner::named)?;
        let client = client::identify(&mut head.extensions, &owner);
        Ok(owner.of_client(client))
    }

    /// Returns what happens to a turn after its last reader disconnects, if readers can reconnect.
    pub(crate) fn grace(&self) -> Disconnect {
        Disconnect::grace(self.disconnect_grace)
    }

    /// Returns `true` once the turn group shuts down. A full group still counts as ready.
    pub(crate) fn is_shutting_down(&self) -> bool {
        let accepts = self.turns.check();
        accepts.is_err_and(|rejected| rejected.failure.kind == FailureKind::ShuttingDown)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("turns", &self.turns)
            .field("limits", &self.limits)
            .field("timeouts", &self.timeouts)
            .field("disconnect_grace", &self.disconnect_grace)
            .field("prefix", &self.prefix)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl FromRequestParts<Arc<Shared>> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let owner = shared.identify(parts)?;
        let passed = parts
            .headers
            .iter()
            .filter(|(name, _)| shared.passed_headers.contains(name))
            // A header that is not text cannot be passed on as text.
            .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        Ok(owner.with_headers(passed.collect()))
    }
}
