//! A generation's channel as the engine's thread sees it: never waited for, with places kept for the end.
//!
//! It knows no tokens.

use std::fmt::{self, Debug, Formatter};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::models::{Finished, ModelError, Piece};

/// Where an answer goes.
pub(super) struct Outlet {
    sender: mpsc::Sender<Piece>,
    /// Places for the last text and for the end: neither has to wait for a reader.
    last: mpsc::OwnedPermit<Piece>,
    end: mpsc::OwnedPermit<Piece>,
    /// Text that found no room.
    behind: Option<String>,
}

impl Outlet {
    /// None where the reader has gone already.
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

    /// Whether nobody reads any more.
    pub(super) fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a text, or holds it. Nothing more may be sent while one is [held](Self::is_behind).
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

    /// Whether a text is held still, after another attempt.
    pub(super) fn is_behind(&mut self) -> bool {
        if let Some(text) = self.behind.take() {
            self.send(text);
        }
        self.behind.is_some()
    }

    /// Ends with what is held and this last text.
    pub(super) fn finish(self, text: String, finished: Finished) {
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
        self.end.send(Piece::Finished(finished));
    }

    /// Ends in a failure. A text that is held comes before it.
    pub(super) fn fail(self, error: ModelError) {
        if let Some(held) = self.behind {
            self.last.send(Piece::Text(held));
        }
        self.end.send(Piece::Failed(error));
    }

    /// Waits until there is room, or nobody reads any more.
    pub(super) async fn ready(&self) {
        // Either way the next step sees which.
        let _ = self.sender.reserve().await;
    }

    /// Waits until nobody reads any more.
    pub(super) async fn gone(&self) {
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
