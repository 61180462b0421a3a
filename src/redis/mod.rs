//! The connection to a Redis server, which journals and sessions share: where the server is, which
//! servers are accepted, when a request is sent again, and when it fails.
//!
//! It knows no turn and no session. [`Journal::redis`](crate::turn::Journal::redis) and
//! [`Sessions::redis`](crate::session::Sessions::redis) use it.

pub(crate) mod check;
pub(crate) mod connector;
mod durability;
mod error;
pub(crate) mod keys;
pub(crate) mod link;
mod options;

pub use durability::Durability;
pub use error::RedisError;
pub use options::RedisOptions;
