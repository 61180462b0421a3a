//! A generation's channel as the engine's thread uses it: sending never waits, and capacity is
//! reserved for the end.
//!
//! This module does not know tokens.

use std::fmt::{self, Debug, Formatter};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::models::{GenerationEnd, ModelError, Piece};

/// The sending half of an answer.
pub(super) struct Outlet {
    sender: mpsc::Sender<Piece>,
    /// Reserved capacity for the last text and for the end: neither has to wait for the reader.
    last: mpsc::OwnedPermit<Piece>,
    end: mpsc::OwnedPermit<Piece>,
    /// A text for which the channel had no capacity.
    behind: Option<String>,
}

impl Outlet {
    /// Creates an outlet; `None` if the reader has already disconnected.
    pub(super) fn new(sender: mpsc::Sender<Piece>) -> Option<Self> {
        let last = sender.clone().try_reserve_owned().ok()?;
        let end = sender.clone().try_reserve_owned().ok()?;
        Some(Self {
            sender,
            last,
            end,
            behind: None,
        })
    }

    /// Returns `true` if the reader has disconnected.
    pub(super) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a text, or holds it if the channel is full. No text may be sent while another one is
    /// [held](Self::is_behind).
    pub(super) fn send(&mut self, text: String) {
        debug_assert!(
            self.behind.is_none(),
            "the sequence is paused while a text is held"
        );
        if text.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(Piece::Text(text))) = self.sender.try_send(Piece::Text(text)) {
            self.behind = Some(text);
        }
    }

    /// Tries again to send the held text. Returns `true` if it is still held.
    pub(super) fn is_behind(&mut self) -> bool {
        if let Some(text) = self.behind.take() {
            self.send(text);
        }
        self.behind.is_some()
    }

    /// Ends with the held text and this last one.
    pub(super) fn finish(self, text: String, finished: GenerationEnd) {
        let last = match self.behind {
            Some(mut held) => {
                held.push_str(&text);
                held
            }
            None => text,
        };
        if !last.is_empty() {
            self.last.send(Piece::Text(last));
        }
        self.end.send(Piece::End(finished));
    }

    /// Ends with a failure, after the held text.
    pub(super) fn fail(self, error: ModelError) {
        if let Some(held) = self.behind {
            self.last.send(Piece::Text(held));
        }
        self.end.send(Piece::Failed(error));
    }

    /// Waits until the channel has capacity or the reader has disconnected.
    pub(super) async fn ready(&self) {
        // The next step checks which of the two happened.
        let _ = self.sender.reserve().await;
    }

    /// Waits until the reader has disconnected.
    pub(super) async fn disconnected(&self) {
        self.sender.closed().await;
    }
}

impl Debug for Outlet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet")
            .field("is_behind", &self.behind.is_some())
            .finish_non_exhaustive()
    }
}
