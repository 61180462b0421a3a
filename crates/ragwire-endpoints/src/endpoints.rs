//! The builder of all routes, and what it builds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use http::HeaderName;
use http::request::Parts;
use ragwire::http::gateway::Gateway;
use ragwire::session::{SessionLimits, Sessions};
use ragwire::turn::{Journal, JournalLimits, TurnGroup, TurnObserver};
use ragwire::{Orchestrator, Timeouts};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::bodies::Bodies;
use crate::eve::EveSessions;
use crate::limits::EndpointLimits;
use crate::openapi::{self, requests};
use crate::origin::Origins;
use crate::owner::OwnerOf;
use crate::protocol::Protocol;
use crate::records::TurnRecords;
use crate::refusal::Refusal;
use crate::shared::Shared;
use crate::{ollama, trustgraph, turns};

/// As many questions as are answered concurrently, so that the last one waits for one answer. Each
/// holds a connection and its question in memory.
const MAX_QUEUED: usize = TurnGroup::MAX_ACTIVE;

/// Serves an orchestrator in every protocol.
///
/// ```
/// use ragwire::{Metadata, Question, SendError, Sink};
/// use ragwire_endpoints::Endpoints;
///
/// async fn answer(question: Question, sink: Sink) -> Result<Metadata, SendError> {
///     sink.send(format!("You asked: {}", question.prompt)).await?;
///     Ok(Metadata::default())
/// }
///
/// let app: axum::Router = Endpoints::new(answer).router();
/// ```
///
/// The router is a tower `Service`, so it also runs in a bare hyper server. Everything has a
/// default: turns and sessions are stored in memory, and all requests are anonymous.
#[must_use]
pub struct Endpoints {
    orchestrator: Arc<dyn Orchestrator>,
    journal: Option<Journal>,
    sessions: Option<Sessions>,
    records: Option<Sessions>,
    lists_anonymous: bool,
    turns: Option<TurnGroup>,
    owner: Option<OwnerOf>,
    limits: EndpointLimits,
    timeouts: Timeouts,
    disconnect_grace: Duration,
    prefix: String,
    protocols: Vec<Protocol>,
    name: String,
    mode: String,
    origins: Origins,
    passed_headers: Vec<HeaderName>,
    accepts_attachments: bool,
    has_structured_results: bool,
    parameters: Vec<String>,
    observer: Option<Arc<dyn TurnObserver>>,
}

impl Endpoints {
    /// The default of [`disconnect_grace`](Self::disconnect_grace), 30 seconds: reloading a page or
    /// changing the network of a phone takes seconds, and after that the answer is abandoned.
    pub const DISCONNECT_GRACE: Duration = Duration::from_secs(30);
    /// The default of [`name`](Self::name).
    pub const NAME: &'static str = "ragwire";
    /// The default of [`mode`](Self::mode).
    pub const MODE: &'static str = "hybrid";

    /// Creates the endpoints of all protocols.
    pub fn new(orchestrator: impl Orchestrator) -> Self {
        Self {
            orchestrator: Arc::new(orchestrator),
            journal: None,
            sessions: None,
            records: None,
            lists_anonymous: false,
            turns: None,
            owner: None,
            limits: EndpointLimits::default(),
            timeouts: Timeouts::default(),
            disconnect_grace: Self::DISCONNECT_GRACE,
            prefix: String::new(),
            protocols: Protocol::ALL.to_vec(),
            name: Self::NAME.to_owned(),
            mode: Self::MODE.to_owned(),
            origins: Origins::default(),
            passed_headers: Vec::new(),
            accepts_attachments: false,
            has_structured_results: false,
            parameters: Vec::new(),
            observer: None,
        }
    }

    /// Creates the endpoints of the AI SDK alone.
    pub fn ai_sdk(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::AiSdk])
    }

    /// Creates the endpoint of AG-UI alone.
    pub fn ag_ui(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::AgUi])
    }

    /// Creates the endpoints for the SDKs of OpenAI alone.
    pub fn openai(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::OpenAi])
    }

    /// Creates the endpoints of OpenAI's Responses API alone.
    pub fn responses(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::Responses])
    }

    /// Creates the endpoints of Ollama alone.
    pub fn ollama(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::Ollama])
    }

    /// Creates the endpoints of Eve alone.
    pub fn eve(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::Eve])
    }

    /// Creates the endpoint of Forge alone.
    pub fn forge(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::Forge])
    }

    /// Creates the endpoints of the session chat alone.
    pub fn session_chat(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::SessionChat])
    }

    /// Creates the endpoints of LangGraph alone.
    pub fn langgraph(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::LangGraph])
    }

    /// Creates the endpoint of the Model Context Protocol alone.
    pub fn mcp(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::Mcp])
    }

    /// Creates the endpoints of TrustGraph alone.
    pub fn trustgraph(orchestrator: impl Orchestrator) -> Self {
        Self::new(orchestrator).protocols([Protocol::TrustGraph])
    }

    /// Selects the protocols. Default: all of them.
    ///
    /// The routes to resume, stop and answer a turn by its id, below `/v1/turns/{turn_id}`, belong
    /// to every protocol except TrustGraph's.
    pub fn protocols(mut self, protocols: impl IntoIterator<Item = Protocol>) -> Self {
        self.protocols.clear();
        for protocol in protocols {
            if !self.protocols.contains(&protocol) {
                self.protocols.push(protocol);
            }
        }
        self
    }

    /// Sets the journal, from which turns are resumed, stopped and answered. Default: one in memory
    /// with the default limits.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Sets the store of conversations. Default: one in memory with the default limits.
    ///
    /// The limit on the state of a session must be at least
    /// [`max_state_bytes`](Self::max_state_bytes) for the sessions of Eve.
    pub fn sessions(mut self, sessions: Sessions) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Sets the store of the finished turns of those conversations, which a page reads to show them
    /// again: a separate store, with [`record_limits`](Self::record_limits). Default: one in
    /// memory.
    pub fn records(mut self, records: Sessions) -> Self {
        self.records = Some(records);
        self
    }

    /// Returns the limits of a store of finished turns beside sessions with these limits.
    pub fn record_limits(sessions: &SessionLimits) -> SessionLimits {
        TurnRecords::limits(sessions)
    }

    /// Lets anonymous callers list the sessions and the feedback of all anonymous callers. Only for
    /// a server with one user. Default: they may not, because the list shows what others asked.
    pub fn list_anonymous(mut self) -> Self {
        self.lists_anonymous = true;
        self
    }

    /// Sets the group of the turns, which limits how many run and wait. Default: 64 of each.
    ///
    /// The group must have `max_per_owner(1)`. The lane of a turn is its session or its chat, so
    /// this limit is what answers the questions of one session one after the other.
    pub fn turns(mut self, turns: TurnGroup) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Sets the function that determines the owner of a request from its head. `None` is an
    /// anonymous owner, and the refusal of a request is its response.
    ///
    /// Turns and sessions can only be read, stopped and continued by their owner. Names have at
    /// most 1,024 bytes and no NUL; others are refused. [`owner_header`](crate::owner_header)
    /// reads a header. A middleware that authenticates requests can pass the name on as an
    /// extension:
    ///
    /// ```
    /// # use ragwire::{Metadata, Question, SendError, Sink};
    /// # use ragwire_endpoints::Endpoints;
    /// # async fn answer(_: Question, _: Sink) -> Result<Metadata, SendError> { Ok(Metadata::default()) }
    /// #[derive(Clone)]
    /// struct User(String);
    ///
    /// let app = Endpoints::new(answer)
    ///     .owner(|head| Ok(head.extensions.get::<User>().map(|user| user.0.clone())))
    ///     .router();
    /// # let _: axum::Router = app;
    /// ```
    pub fn owner<F>(mut self, owner_of: F) -> Self
    where
        F: Fn(&Parts) -> Result<Option<String>, Refusal> + Send + Sync + 'static,
    {
        self.owner = Some(Arc::new(owner_of));
        self
    }

    /// Passes headers of the request to the orchestrator, in
    /// [`options.headers`](ragwire::orchestrator::QuestionOptions::headers). Default: none, because
    /// headers may hold credentials.
    pub fn pass_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.passed_headers.extend(names);
        self
    }

    /// Passes the files that clients send with their messages to the orchestrator, in
    /// [`attachments`](ragwire::Question::attachments). By default a question with a file gets 422,
    /// because the answer would look as if the file had been read.
    ///
    /// A request may have [`max_attachment_bytes`](EndpointLimits::max_attachment_bytes) more then.
    pub fn attachments(mut self) -> Self {
        self.accepts_attachments = true;
        self
    }

    /// Passes the JSON schema for an answer to the orchestrator, in
    /// [`options.output_schema`](ragwire::orchestrator::QuestionOptions::output_schema): Eve's
    /// `outputSchema` and OpenAI's `response_format`. By default a request with a schema is refused,
    /// unless the orchestrator itself says that it
    /// [has structured results](Orchestrator::has_structured_results).
    ///
    /// The orchestrator emits [`StructuredResult`](ragwire::event::StructuredResult) for Eve, and
    /// writes the JSON as the text of the answer for OpenAI.
    pub fn structured_results(mut self) -> Self {
        self.has_structured_results = true;
        self
    }

    /// Names parameters of OpenAI's requests that the orchestrator honours, such as `temperature`.
    /// They are in [`options.extra`](ragwire::orchestrator::QuestionOptions::extra). Other
    /// parameters that would change the answer are refused with 400.
    pub fn openai_parameters(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.parameters.extend(names.into_iter().map(Into::into));
        self
    }

    /// Sets what receives the figures of each turn after its end, for metrics.
    pub fn observer(mut self, observer: Arc<dyn TurnObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Sets the limits of requests.
    pub fn limits(mut self, limits: EndpointLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the time limits of turns.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// Sets how long a turn continues without readers if its client can reconnect. 0 stops it at
    /// once.
    pub fn disconnect_grace(mut self, grace: Duration) -> Self {
        self.disconnect_grace = grace;
        self
    }

    /// Sets a path in front of every route, such as `/rag`. Default: none.
    ///
    /// A router that nests the endpoints needs the same path here, because some responses contain
    /// links. Use this method instead of nesting.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        let path = prefix.trim_matches('/');
        self.prefix = if path.is_empty() {
            String::new()
        } else {
            format!("/{path}")
        };
        self
    }

    /// Sets the name of the only model and agent, which the SDKs of OpenAI name in `model`.
    /// Default: `ragwire`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the mode that the routes of ADR 0007 report. Default: `hybrid`.
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = mode.into();
        self
    }

    /// Allows pages of this origin, such as `https://app.example`, to use MCP and to open the
    /// WebSocket of TrustGraph. By default only the server's own pages may.
    ///
    /// For MCP these are the pages of an address, of `localhost`, and of the names that
    /// [`allow_host`](Self::allow_host) declares: anyone can point another name at this server (DNS
    /// rebinding).
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.allow(origin.into());
        self
    }

    /// Declares a host name of this server, without a port, whose own pages may use MCP.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.origins.allow_host(host.into());
        self
    }

    /// Allows pages of any origin to use MCP and to open the WebSocket of TrustGraph. Only use it if
    /// a middleware checks the origin.
    pub fn allow_any_origin(mut self) -> Self {
        self.origins.allow_any();
        self
    }

    /// Returns the size that the state of a session needs if a question has at most
    /// `max_question_bytes`, for
    /// [`SessionLimits::max_state_bytes`](ragwire::session::SessionLimits::max_state_bytes).
    pub fn max_state_bytes(max_question_bytes: usize) -> usize {
        EveSessions::max_state_bytes(max_question_bytes)
    }

    /// Builds the routes.
    ///
    /// Use [`build`](Self::build) to also end the turns when the server shuts down.
    ///
    /// # Panics
    ///
    /// Panics if the prefix contains a parameter or a wildcard.
    pub fn router(self) -> Router {
        self.build().router()
    }

    /// Builds the routes, with a handle to shut them down.
    pub fn build(self) -> Service {
        let Self {
            orchestrator,
            journal,
            sessions,
            records,
            lists_anonymous,
            turns,
            owner,
            limits,
            timeouts,
            disconnect_grace,
            prefix,
            protocols,
            name,
            mode,
            origins,
            passed_headers,
            accepts_attachments,
            has_structured_results,
            parameters,
            observer,
        } = self;
        let journal = journal.unwrap_or_else(|| Journal::in_memory(JournalLimits::default()));
        let sessions = sessions.unwrap_or_else(|| {
            let state = EveSessions::max_state_bytes(limits.max_question_bytes);
            Sessions::in_memory(SessionLimits::default().max_state_bytes(state))
        });
        let records = records.unwrap_or_else(|| Sessions::in_memory(TurnRecords::limits(sessions.limits())));
        let turns = turns.unwrap_or_else(|| {
            TurnGroup::builder()
                .max_queued(MAX_QUEUED)
                .max_per_owner(1)
                .max_active_per_client(limits.client_share.of(TurnGroup::MAX_ACTIVE))
                .max_queued_per_client(limits.client_share.of(MAX_QUEUED))
                .build()
        });
        let shared = Arc::new(Shared {
            answers_ollama: protocols.contains(&Protocol::Ollama),
            searcher: orchestrator.searcher(),
            has_structured_results: has_structured_results || orchestrator.has_structured_results(),
            orchestrator,
            turns,
            eve: EveSessions::new(sessions.clone(), journal.clone()),
            journal,
            observer,
            sessions,
            records: TurnRecords::new(records),
            lists_anonymous,
            owner,
            origins,
            passed_headers,
            accepts_attachments,
            parameters,
            bodies: Bodies::new(limits),
            limits,
            timeouts,
            disconnect_grace,
            prefix,
            name,
            mode,
        });
        Service {
            gateway: trustgraph::gateway(&shared),
            shared,
            protocols,
        }
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoints")
            .field("protocols", &self.protocols)
            .field("limits", &self.limits)
            .field("timeouts", &self.timeouts)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// The endpoints that [`Endpoints::build`] returns. Clones share their state.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
    gateway: Gateway,
    protocols: Vec<Protocol>,
}

impl Service {
    /// Returns the routes.
    ///
    /// # Panics
    ///
    /// Panics if the prefix contains a parameter or a wildcard.
    pub fn router(&self) -> Router {
        let (routes, _) = self.table().split_for_parts();
        routes
            .layer(Extension(self.gateway.clone()))
            .with_state(Arc::clone(&self.shared))
    }

    /// Returns the OpenAPI document of the routes.
    pub fn openapi(&self) -> OpenApi {
        let mut document = self.table().into_openapi();
        let shared = &self.shared;
        let (reads_files, has_results) = (shared.accepts_attachments, shared.has_structured_results);
        requests::complete(&mut document, reads_files, has_results, &shared.parameters);
        document
    }

    /// Returns the request bodies that are being read, so that further routes of the server share
    /// their limits.
    pub fn bodies(&self) -> &Bodies {
        &self.shared.bodies
    }

    /// Determines the owner of a request to a further route of the server, and stores the client in
    /// its extensions, by which [`bodies`](Self::bodies) counts. Returns `None` if the owner is
    /// anonymous.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] of the function that determines owners, see [`Endpoints::owner`].
    pub fn identify(&self, head: &mut Parts) -> Result<Option<String>, Refusal> {
        let owner = self.shared.identify(head)?;
        Ok(owner.name().map(str::to_owned))
    }

    /// Returns every selected route. The attributes of its handler are also its entry in the
    /// OpenAPI document.
    fn table(&self) -> OpenApiRouter<Arc<Shared>> {
        let mut table = OpenApiRouter::with_openapi(openapi::base());
        if self.protocols.iter().any(|protocol| protocol.has_turn_ids()) {
            table = table.merge(turns::routes_by_id());
        }
        for protocol in &self.protocols {
            table = table.merge(protocol.routes());
        }
        let has = |protocol| self.protocols.contains(&protocol);
        if has(Protocol::Ollama) && !has(Protocol::AiSdk) {
            table = table.merge(ollama::chat_route());
        }
        match &*self.shared.prefix {
            "" => table,
            prefix => OpenApiRouter::with_openapi(openapi::base()).nest(prefix, table),
        }
    }

    /// Refuses new questions and bodies that are still arriving, and ends the running turns with a
    /// failure. Wait for
    /// [`drained`](Self::drained) before the server closes its connections.
    pub fn shut_down(&self) {
        self.shared.turns.shut_down();
        self.shared.bodies.shut_down();
        self.gateway.shut_down();
    }

    /// Waits until no turn is running and what they left is stored.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped, call the method again.
    pub async fn drained(&self) {
        self.shared.turns.drained().await;
        self.shared.eve.settled().await;
    }
}
