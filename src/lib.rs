#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod event;
mod frame;
mod json;
mod metadata;
mod record;
mod utf8;
pub mod wire;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "rag")]
pub mod rag;
#[cfg(feature = "turn")]
pub mod turn;

pub use event::Event;
pub use frame::{End, Failure, Frame, FrameKind, Item, Order, OutOfOrder, Phase, Status, Timestamp};
pub use metadata::{Citation, Metadata, QueueStats, Usage};
#[cfg(feature = "turn")]
pub use turn::{Commit, EventSink, Rejected, SendError, Sink, Timeouts, Turn, TurnId};
pub use wire::framed::Framed;
