//! The connection to the server: made when it is needed, made anew when it is lost, and how long that may take. It knows no turn.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, FromRedisValue, Pipeline, RedisResult, ScriptInvocation};
use tokio::time::Instant;

use super::error::Trouble;
use super::options::RedisOptions;

/// First pause before something is tried again: a lost connection is there again by then.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause: a server that comes back is noticed within it.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The server cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable;

/// What is asked of the server. All of it may be asked twice.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    Commands(&'a Pipeline),
    Script(&'a ScriptInvocation<'a>),
}

impl Request<'_> {
    async fn send<T: FromRedisValue>(self, connection: &mut MultiplexedConnection) -> RedisResult<T> {
        match self {
            Self::Commands(commands) => commands.query_async(connection).await,
            Self::Script(script) => script.invoke_async(connection).await,
        }
    }
}

/// The connection that everything but the waiting for news goes over.
pub(crate) struct Link {
    client: redis::Client,
    config: AsyncConnectionConfig,
    retry: Duration,
    /// Longest time between two attempts of somebody who goes on trying.
    patience: Duration,
    /// Locked while somebody connects, so that only one does.
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    /// Since when nothing works, and when it last did not.
    failing: Mutex<Option<(Instant, Instant)>>,
}

impl Link {
    pub(crate) fn new(options: &RedisOptions) -> Self {
        Self {
            client: options.client.clone(),
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(options.connect_timeout))
                .set_response_timeout(Some(options.response_timeout)),
            retry: options.retry,
            patience: options.retry + options.connect_timeout + options.response_timeout + MAX_PAUSE,
            connection: tokio::sync::Mutex::default(),
            failing: Mutex::default(),
        }
    }

    /// A connection of its own whose answers may take for ever: for whoever waits for news.
    pub(super) async fn connect_to_wait(&self) -> RedisResult<MultiplexedConnection> {
        let config = self.config.clone().set_response_timeout(None);
        self.client
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let mut place = self.connection.lock().await;
        if let Some(connection) = &*place {
            return Ok(connection.clone());
        }
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await?;
        *place = Some(connection.clone());
        Ok(connection)
    }

    /// Asks once.
    pub(super) async fn attempt<T: FromRedisValue>(&self, request: Request<'_>) -> RedisResult<T> {
        let asked = match self.connection().await {
            Ok(mut connection) => request.send(&mut connection).await,
            Err(error) => Err(error),
        };
        match &asked {
            Ok(_) => self.works(),
            // Also where the connection is sound: behind the same name there may be another master by now.
            Err(error) if Trouble::of(error) == Trouble::Passing => {
                *self.connection.lock().await = None;
                self.fails();
            }
            Err(_) => {}
        }
        asked
    }

    /// Asks until there is an answer, the server refuses, or it has not worked for too long.
    pub(crate) async fn ask<T: FromRedisValue>(&self, request: Request<'_>) -> Result<T, Unreachable> {
        let begun = Instant::now();
        let mut pause = MIN_PAUSE;
        loop {
            let error = match self.attempt(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // A server that is full still answers those who only read: what counts is how long this took as well.
            if self.is_hopeless(&error) || begun.elapsed() >= self.retry {
                tracing::warn!(%error, "redis cannot be used");
                return Err(Unreachable);
            }
            tracing::debug!(%error, "redis is asked again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Whether there is no point in asking again after `error`.
    pub(super) fn is_hopeless(&self, error: &redis::RedisError) -> bool {
        let failing = *self.lock();
        Trouble::of(error) == Trouble::Lasting
            || failing.is_some_and(|(since, last)| last.duration_since(since) >= self.retry)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Instant)>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something worked.
    pub(super) fn works(&self) {
        *self.lock() = None;
    }

    /// Something did not.
    pub(super) fn fails(&self) {
        let now = Instant::now();
        let mut failing = self.lock();
        // What failed long ago, when nobody asked any more, says nothing about now.
        let since = failing
            .filter(|(_, last)| now.duration_since(*last) <= self.patience)
            .map_or(now, |(since, _)| since);
        *failing = Some((since, now));
    }
}
