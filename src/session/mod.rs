//! Sessions: the conversation that a turn continues, stored from turn to turn.
//!
//! ```text
//!  Sessions ──► Session ──► Backend ──► backend/memory.rs   this process
//!  sessions.rs  record.rs   bytes under backend/file.rs     one file, survives a restart   (feature `sqlite`)
//!                           owner + id  backend/redis.rs    a server, for several hosts    (feature `redis`)
//! ```
//!
//! A session belongs to its owner: the user that your authentication reports, or `""` in a service
//! that does not distinguish users. The key of a session is its owner *and* its ID. An ID that
//! belongs to another owner, that never existed or that has expired gives the same error after the
//! same work, so a client cannot probe for sessions. [`Sessions::begin`] generates IDs with 128
//! random bits; an ID chosen by a client is unique only within its owner.
//!
//! Every change is a compare-and-swap. If two hosts change a session at the same time, the slower
//! one reads the new state and applies its change again. Everything is bounded: sessions, messages,
//! bytes and age; the oldest are evicted first.
//!
//! This module knows no turn, no journal and no HTTP. The caller decides what a conversation
//! contains and who may read it.

mod backend;
mod clock;
mod error;
mod key;
mod limits;
mod message;
mod record;
mod sessions;

pub use error::SessionError;
pub use limits::SessionLimits;
pub use message::{Message, Role};
pub use record::{MAX_TITLE_CHARS, Session};
pub use sessions::Sessions;

#[cfg(test)]
mod tests;
