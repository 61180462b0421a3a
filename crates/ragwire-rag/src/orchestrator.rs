//! The three pipelines as orchestrators, so that endpoints can serve them.
//!
//! ```
//! use std::sync::Arc;
//! use ragwire::Orchestrator;
//! use ragwire_rag::{Agent, Library, LibraryLimits};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let library = Arc::new(Library::in_memory(LibraryLimits::default())?);
//! let orchestrator: Arc<dyn Orchestrator> = Arc::new(Agent::lexical(library));
//! # Ok(())
//! # }
//! ```

use ragwire::orchestrator::{Answering, Effort, Service};
use ragwire::session::{self, Message};
use ragwire::{Metadata, Orchestrator, Question, Sink};

use crate::agent::{Agent, AgentQuestion};
use crate::answer::document_rag::{DocumentQuestion, DocumentRag};
use crate::answer::error::{AnswerError, AnswerErrorKind};
use crate::graph::{GraphQuestion, GraphRag};
use crate::models::{ChatMessage, Role};

/// An agent gives the same kind of answer for every service.
impl Orchestrator for Agent {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        answering(Self::answer(self, question.into(), sink))
    }
}

/// GraphRAG uses the limits of its own service, otherwise their defaults.
impl Orchestrator for GraphRag {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        answering(Self::answer(self, question.into(), sink))
    }
}

/// DocumentRAG uses the limits of its own service, otherwise their defaults.
impl Orchestrator for DocumentRag {
    fn answer(&self, question: Question, sink: Sink) -> Answering {
        answering(Self::answer(self, question.into(), sink))
    }
}

impl From<Question> for AgentQuestion {
    fn from(question: Question) -> Self {
        let options = question.options;
        let mut agent = Self::new(question.prompt)
            .earlier(question.history.into_iter().map(chat_message).collect())
            .instructions(options.instructions.unwrap_or_default())
            .review(options.review)
            .verify(options.verify)
            .sources_last(options.sources_last)
            .scope(question.owner);
        if let Some(mode) = question.mode {
            agent = agent.mode(mode);
        }
        if let Some(searches) = searches(question.effort) {
            agent = agent.searches(searches);
        }
        agent
    }
}

impl From<Question> for GraphQuestion {
    fn from(question: Question) -> Self {
        let graph = Self::new(question.prompt);
        match question.options.service {
            Service::GraphRag(limits) => graph.limits(limits),
            _ => graph,
        }
    }
}

impl From<Question> for DocumentQuestion {
    fn from(question: Question) -> Self {
        let documents = Self::new(question.prompt);
        match question.options.service {
            Service::DocumentRag(limits) => documents.limits(limits),
            _ => documents,
        }
    }
}

/// Returns the number of searches an agent may make: three can compare two things, and more than
/// twelve take longer than a patient user waits.
fn searches(effort: Effort) -> Option<u32> {
    match effort {
        Effort::None => Some(1),
        Effort::Low => Some(3),
        // The default of the pipeline.
        Effort::Medium => None,
        Effort::High => Some(9),
        Effort::Xhigh => Some(12),
    }
}

fn chat_message(message: Message) -> ChatMessage {
    let role = match message.role {
        session::Role::User => Role::User,
        session::Role::Assistant => Role::Assistant,
    };
    ChatMessage::new(role, message.text)
}

/// Logs the error of an answer and turns it into the failure for the client.
fn answering(answer: impl Future<Output = Result<Metadata, AnswerError>> + Send + 'static) -> Answering {
    Box::pin(async move {
        answer.await.map_err(|error| {
            // A turn that ended early, because the client disconnected or stopped it, is not an
            // error.
            if error.kind() != AnswerErrorKind::TurnEnded {
                let (code, error) = (error.kind().as_str(), &error as &dyn std::error::Error);
                tracing::warn!(code, error, "a question was not answered");
            }
            error.failure().into()
        })
    })
}
