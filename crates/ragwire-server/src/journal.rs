//! Where the server keeps its turns: in its own memory, or in a Redis server that it shares with others (`--redis`).

use ragwire::turn::{Journal, JournalLimits, RedisError, RedisOptions};

use crate::cli::settings::Settings;

/// Opens what the settings name. In memory that cannot fail.
///
/// # Errors
///
/// [`RedisError`] where the Redis server is not there, or is none that turns can be trusted to.
pub async fn open(settings: &Settings) -> Result<Journal, RedisError> {
    match redis_options(settings)? {
        Some(options) => Journal::redis(options, limits(settings)).await,
        None => Ok(in_memory(settings)),
    }
}

/// A journal in memory, whatever the settings say of Redis.
pub fn in_memory(settings: &Settings) -> Journal {
    Journal::in_memory(limits(settings))
}

/// The Redis server of the settings, if they name one. Nothing is connected to.
///
/// # Errors
///
/// [`RedisError`] where the address or the prefix is none.
pub fn redis_options(settings: &Settings) -> Result<Option<RedisOptions>, RedisError> {
    // A wrong prefix is a mistake in any case.
    let url = settings.redis.0.as_deref();
    let options = RedisOptions::new(url.unwrap_or("redis://127.0.0.1"))?
        .prefix(&settings.redis_prefix.0)?
        .lease(settings.redis_lease.0)
        .retry(settings.redis_retry.0)
        .require(settings.redis_durability.0);
    Ok(url.map(|_| options))
}

fn limits(settings: &Settings) -> JournalLimits {
    JournalLimits::default()
        .keep(settings.journal_keep.0)
        .max_turn_bytes(settings.journal_turn_size.0)
        .max_bytes(settings.journal_size.0)
        .max_turns(settings.journal_turns.0)
}
