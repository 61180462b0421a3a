//! Orchestrators outside of this process, behind HTTP or as child processes.
//!
//! ```text
//!  Question ──► request.rs ──► http.rs or process/ ──► decoder ──► relay.rs ──► Sink
//!               one body per     time-outs, retries    of the       events, text,
//!               protocol         before the first      wire         human questions
//!                                byte                                and their answers
//! ```
//!
//! | to change | see |
//! |---|---|
//! | what an orchestrator gets | `request.rs`, `trace.rs` |
//! | an orchestrator behind HTTP | `http.rs` |
//! | the threads of LangGraph's server | `threads.rs` |
//! | child processes | `process/` |
//! | the way of an answer into the turn | `relay.rs` |
//! | answers that end at their questions, and the requests after them | `interrupts.rs`, `transcript.rs` |
//! | how questions to humans and their answers travel | `humans.rs` |
//! | codes and messages of failures | `error.rs` |

mod error;
mod http;
mod humans;
mod interrupts;
mod process;
mod relay;
mod request;
mod threads;
pub(crate) mod trace;
mod transcript;

use std::time::Duration;

use ragwire::orchestrator::Answering;
use ragwire::turn::{BoxError, RelayError};
use ragwire::{Orchestrator, Question, Sink};
use ragwire_rag::models::upstream::HttpClient;

pub use self::error::GatewayError;
pub use self::http::HttpOptions;
pub use self::process::{ProcessOptions, split};

pub(crate) use self::error::chain;
use self::http::HttpOrchestrator;
use self::process::ProcessPool;

/// How long one attempt to connect may take; a TCP connection around the world takes half a second.
const CONNECT: Duration = Duration::from_secs(5);

/// Where an orchestrator is and how it is asked.
#[derive(Clone, Debug)]
pub enum GatewayOptions {
    /// Behind HTTP.
    Http(HttpOptions),
    /// In child processes.
    Process(ProcessOptions),
}

/// An orchestrator outside of this process. Clones share its connections and processes.
#[derive(Clone, Debug)]
pub struct Gateway(Target);

#[derive(Clone, Debug)]
enum Target {
    Http(Box<HttpOrchestrator>),
    Process(ProcessPool),
}

impl Gateway {
    /// Prepares the connections, or starts the first process. Does not connect.
    ///
    /// # Errors
    ///
    /// [`GatewayError::Authorities`], [`GatewayError::Http`] or [`GatewayError::Start`].
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, if it starts a process.
    pub fn start(options: GatewayOptions) -> Result<Self, GatewayError> {
        Ok(Self(match options {
            GatewayOptions::Http(options) => {
                let authorities = options.authorities.as_ref().map(std::fs::read).transpose();
                let authorities = authorities.map_err(GatewayError::Authorities)?;
                let client = HttpClient::new(CONNECT, authorities.as_deref())?;
                Target::Http(Box::new(HttpOrchestrator::new(client, options)))
            }
            GatewayOptions::Process(options) => Target::Process(ProcessPool::start(options)?),
        }))
    }

    /// Kills all child processes.
    pub fn shut_down(&self) {
        match &self.0 {
            Target::Http(_) => {}
            Target::Process(pool) => pool.shut_down(),
        }
    }
}

impl Orchestrator for Gateway {
    /// Whether the protocol of the orchestrator's requests has a place for a schema.
    fn has_structured_results(&self) -> bool {
        match &self.0 {
            Target::Http(http) => http.takes_schemas(),
            Target::Process(_) => true,
        }
    }

    fn answer(&self, question: Question, sink: Sink) -> Answering {
        let target = self.0.clone();
        Box::pin(async move {
            let answered = match &target {
                Target::Http(http) => http.answer(question, sink.clone()).await,
                Target::Process(pool) => pool.answer(question, sink.clone()).await,
            };
            answered.map_err(|trouble| match trouble.error {
                // The turn ended by itself, or as the orchestrator's did.
                GatewayError::Relay(error @ (RelayError::Send(_) | RelayError::Stopped)) => error.into(),
                error => {
                    tracing::warn!(
                        code = error.kind().as_str(),
                        error = chain(&error),
                        upstream = trouble.upstream,
                        "the orchestrator did not answer"
                    );
                    BoxError::from(error.failure())
                }
            })
        })
    }
}
