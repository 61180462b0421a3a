//! Replaces `redis` where that feature is off: types without values, since a journal has no server
//! then.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::cursor::Cursor;
use super::error::{ResumeError, StopError};
use super::log::Log;
use super::record::Record;
use crate::failure::Failure;
use crate::turn::human::open::AnswerSource;
use crate::turn::{AnswerError, AnswerOutcome, TurnId};

#[derive(Debug)]
pub(super) enum Store {}

#[derive(Debug)]
pub(super) enum Writer {}

/// The data that is stored when the response of a turn begins.
#[expect(dead_code, reason = "only a server stores it")]
pub(super) struct Opening<'a> {
    pub(super) id: TurnId,
    pub(super) owner: &'a str,
    pub(super) lane: Option<&'a str>,
    pub(super) keep_alive: Option<Duration>,
}

impl Store {
    pub(super) async fn begin(self: &Arc<Self>, _: Opening<'_>) -> Result<Writer, Failure> {
        match **self {}
    }

    pub(super) async fn resume(self: &Arc<Self>, _: TurnId, _: &str, _: u64) -> Result<Cursor, ResumeError> {
        match **self {}
    }

    pub(super) async fn resume_here(&self, _: &Arc<Log>, _: u64) -> Result<Cursor, ResumeError> {
        match *self {}
    }

    pub(super) async fn stop(self: &Arc<Self>, _: TurnId, _: &str) -> Result<bool, StopError> {
        match **self {}
    }

    pub(super) async fn answer(
        self: &Arc<Self>,
        _: TurnId,
        _: &str,
        _: &str,
        _: (Value, AnswerSource),
    ) -> Result<AnswerOutcome, AnswerError> {
        match **self {}
    }

    pub(super) async fn latest(&self, _: &str, _: &str) -> Result<Option<TurnId>, StopError> {
        match *self {}
    }
}

impl Writer {
    pub(super) fn refresh_at(&self) -> Instant {
        match *self {}
    }

    pub(super) fn remote_readers(&self) -> (Instant, Option<Instant>) {
        match *self {}
    }

    pub(super) async fn append(&mut self, _: &[Record]) -> Result<(), Failure> {
        match *self {}
    }
}
