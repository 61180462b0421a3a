//! Who called a route, and what handlers do for them.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use ragwire::Turn;
use ragwire::session::Session;
use ragwire::turn::TurnId;
use ragwire::wire::Wire;
use serde::de::DeserializeOwned;

use crate::lane::Lane;
use crate::owner::Owner;
use crate::refusal::Refusal;
use crate::request::{self, BodyKind};
use crate::shared::Shared;
use crate::start::{self, Reader, TurnRequest};

/// The owner of a request and the state of the endpoints.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) shared: Arc<Shared>,
    pub(crate) owner: Owner,
}

impl Caller {
    /// Reads a question, unless the server is full or shuts down.
    pub(crate) async fn read_question<T: DeserializeOwned>(
        &self,
        kind: BodyKind,
        request: Request,
    ) -> Result<T, Refusal> {
        request::read_question(&self.shared, kind, request).await
    }

    /// Starts a turn and waits until its response begins.
    pub(crate) async fn start(
        &self,
        reader: Reader,
        request: impl Into<TurnRequest>,
    ) -> Result<Turn, Refusal> {
        start::start(&self.shared, &self.owner, reader, request).await
    }

    /// Does the same as [`start`](Self::start), and passes the session to `on_question` once it
    /// contains the question and before the question is answered.
    pub(crate) async fn start_in_session<F>(
        &self,
        reader: Reader,
        request: TurnRequest,
        on_question: F,
    ) -> Result<Turn, Refusal>
    where
        F: FnOnce(Session) + Send + 'static,
    {
        start::start_in_session(&self.shared, &self.owner, reader, request, on_question).await
    }

    /// Refuses lists to anonymous callers, which would show what others asked, unless the server
    /// has only one user.
    pub(crate) fn check_lists(&self) -> Result<(), Refusal> {
        if self.owner.name().is_some() || self.shared.lists_anonymous {
            return Ok(());
        }
        Err(Refusal::permanent(
            StatusCode::FORBIDDEN,
            "owner_required",
            "Callers of this server are anonymous, so it lists nothing; name the header with the user's name with \
             --owner-header.",
        ))
    }

    /// Returns a session.
    ///
    /// # Errors
    ///
    /// 404 if the owner has no such session.
    pub(crate) async fn session(&self, id: &str) -> Result<Session, Refusal> {
        Ok(self.shared.sessions.get(self.owner.as_str(), id).await?)
    }

    /// Returns a reader of a recorded turn, from its first frame.
    pub(crate) async fn resume(&self, id: TurnId) -> Result<Turn, Refusal> {
        self.resume_from(id, 0).await
    }

    async fn resume_from(&self, id: TurnId, from: u64) -> Result<Turn, Refusal> {
        let turn = self.shared.journal.resume(id, self.owner.as_str(), from).await;
        let turn = turn.map_err(|error| Refusal::of_turn(id, error))?;
        Ok(turn.pad_to(self.shared.limits.pad_to))
    }

    /// Returns a reader of a recorded turn, from a frame on, whose rest fits `wire`.
    ///
    /// # Errors
    ///
    /// 410 if the journal has dropped what the wire needs.
    pub(crate) async fn resume_on(&self, id: TurnId, from: u64, wire: &impl Wire) -> Result<Turn, Refusal> {
        let turn = self.resume_from(id, from).await?;
        turn.supports(wire).map_err(|error| Refusal::of_turn(id, error))?;
        Ok(turn)
    }

    /// Returns the newest turn of a lane that the journal still has.
    pub(crate) async fn newest(&self, lane: &Lane) -> Result<Option<TurnId>, Refusal> {
        start::newest(&self.shared, &self.owner, lane).await
    }

    /// Stops the newest turn of a lane. Returns `false` if none is running.
    pub(crate) async fn stop_newest(&self, lane: &Lane) -> Result<bool, Refusal> {
        start::stop_newest(&self.shared, &self.owner, lane).await
    }

    /// Stops a recorded turn. Returns `false` if it had already ended.
    pub(crate) async fn stop(&self, id: TurnId) -> Result<bool, Refusal> {
        let stopped = self.shared.journal.stop(id, self.owner.as_str()).await;
        stopped.map_err(|error| Refusal::of_turn(id, error))
    }
}

impl FromRequestParts<Arc<Shared>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let owner = Owner::from_request_parts(parts, shared).await?;
        Ok(Self {
            shared: Arc::clone(shared),
            owner,
        })
    }
}

/// A caller on a route whose refusals have the form `R`.
#[derive(Debug)]
pub(crate) struct CallerOr<R>(Caller, PhantomData<fn() -> R>);

impl<R> Deref for CallerOr<R> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.0
    }
}

impl<R> FromRequestParts<Arc<Shared>> for CallerOr<R>
where
    R: From<Refusal> + IntoResponse,
{
    type Rejection = R;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, R> {
        let caller = Caller::from_request_parts(parts, shared).await?;
        Ok(Self(caller, PhantomData))
    }
}

/// Streams a turn on a wire.
pub(crate) fn stream(turn: Turn, wire: impl Wire) -> Response {
    turn.respond(wire).map(Body::new)
}
