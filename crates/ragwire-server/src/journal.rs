//! The journal of the server: in memory, or on a Redis server shared with other servers
//! (`--redis`).

use ragwire::turn::{Journal, JournalLimits, RedisError};

use crate::settings::Settings;

/// Opens the journal that the settings name. A journal in memory always opens.
///
/// # Errors
///
/// [`RedisError`] if the Redis server cannot be reached or is not durable enough.
pub async fn open(settings: &Settings) -> Result<Journal, RedisError> {
    match settings.redis_options()? {
        Some(options) => Journal::redis(options, limits(settings)).await,
        None => Ok(in_memory(settings)),
    }
}

/// Creates a journal in memory and ignores the Redis settings.
pub fn in_memory(settings: &Settings) -> Journal {
    Journal::in_memory(limits(settings))
}

fn limits(settings: &Settings) -> JournalLimits {
    JournalLimits::default()
        .keep(*settings.journal_keep)
        .max_turn_bytes(*settings.journal_turn_size)
        .max_bytes(*settings.journal_size)
        .max_turns(*settings.journal_turns)
}
