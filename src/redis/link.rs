//! The connection to the server: opened on demand, reopened when it is lost, and how long requests
//! are retried.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisResult, Script, ScriptInvocation,
    ServerErrorKind,
};
use tokio::time::Instant;

use super::RedisOptions;
use super::connector::Connector;
use super::error::Recovery;

/// First pause before a request is retried: a lost connection is restored by then.
const MIN_PAUSE: Duration = Duration::from_millis(20);
/// Longest pause between retries: a server that comes back is noticed within it.
pub(super) const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The server cannot be used now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable;

/// A request to the server. It must be safe to send it twice.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    Commands(&'a Pipeline),
    Script(&'a ScriptInvocation<'a>),
    /// A call of this script, already encoded.
    Call(&'a Script, &'a Cmd),
}

impl Request<'_> {
    async fn send<T: FromRedisValue>(self, connection: &mut MultiplexedConnection) -> RedisResult<T> {
        match self {
            Self::Commands(commands) => commands.query_async(connection).await,
            Self::Script(script) => script.invoke_async(connection).await,
            Self::Call(script, call) => match call.query_async(connection).await {
                Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    script.load_async(connection).await?;
                    call.query_async(connection).await
                }
                reply => reply,
            },
        }
    }
}

/// The connection that carries all requests except blocking reads.
pub(crate) struct Link {
    connector: Connector,
    config: AsyncConnectionConfig,
    retry: Duration,
    /// Longest time between two attempts of a caller that keeps retrying.
    longest_gap: Duration,
    /// Locked while it is being opened, so that only one task opens it.
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    outage: Mutex<Option<Outage>>,
}

/// A series of failures without a success in between.
#[derive(Clone, Copy)]
struct Outage {
    first_failure: Instant,
    last_failure: Instant,
}

impl Link {
    pub(crate) fn new(options: &RedisOptions) -> Self {
        Self {
            connector: options.connector.clone(),
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(options.connect_timeout))
                .set_response_timeout(Some(options.response_timeout)),
            retry: options.retry,
            longest_gap: options.retry + options.connect_timeout + options.response_timeout + MAX_PAUSE,
            connection: tokio::sync::Mutex::default(),
            outage: Mutex::default(),
        }
    }

    /// Opens a separate connection without a response time-out, for blocking reads.
    pub(crate) async fn connect_for_blocking_reads(&self) -> RedisResult<MultiplexedConnection> {
        let config = self.config.clone().set_response_timeout(None);
        self.connector.connect(&config).await
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let mut shared = self.connection.lock().await;
        if let Some(connection) = &*shared {
            return Ok(connection.clone());
        }
        let connection = self.connector.connect(&self.config).await?;
        *shared = Some(connection.clone());
        Ok(connection)
    }

    /// Sends a request once.
    pub(crate) async fn request_once<T: FromRedisValue>(&self, request: Request<'_>) -> RedisResult<T> {
        let response = match self.connection().await {
            Ok(mut connection) => request.send(&mut connection).await,
            Err(error) => Err(error),
        };
        match &response {
            Ok(_) => self.record_success(),
            // Reconnects even if the connection itself works: the name may lead to another master
            // by now.
            Err(error) if Recovery::from_error(error) == Recovery::Transient => {
                *self.connection.lock().await = None;
                self.record_failure();
            }
            Err(_) => {}
        }
        response
    }

    /// Sends a request until it is answered, the server rejects it for good, or the retry time is
    /// over.
    pub(crate) async fn request<T: FromRedisValue>(&self, request: Request<'_>) -> Result<T, Unreachable> {
        let begun = Instant::now();
        let mut pause = MIN_PAUSE;
        loop {
            let error = match self.request_once(request).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            // A full server still answers reads, so there may be no outage: the time of this
            // request counts as well.
            if self.should_give_up(&error) || begun.elapsed() >= self.retry {
                tracing::warn!(%error, "redis cannot be used");
                return Err(Unreachable);
            }
            tracing::debug!(%error, "retrying a request to redis");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Returns whether a retry after `error` is pointless: the error is permanent, or the server
    /// has been failing for the retry time.
    pub(crate) fn should_give_up(&self, error: &redis::RedisError) -> bool {
        let outage = *self.lock();
        let is_too_long =
            |outage: Outage| outage.last_failure.duration_since(outage.first_failure) >= self.retry;
        Recovery::from_error(error) == Recovery::Permanent || outage.is_some_and(is_too_long)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record_success(&self) {
        *self.lock() = None;
    }

    pub(crate) fn record_failure(&self) {
        let now = Instant::now();
        let mut outage = self.lock();
        // A failure from before a long time without requests says nothing about this outage.
        let first_failure = outage
            .filter(|outage| now.duration_since(outage.last_failure) <= self.longest_gap)
            .map_or(now, |outage| outage.first_failure);
        *outage = Some(Outage {
            first_failure,
            last_failure: now,
        });
    }
}
