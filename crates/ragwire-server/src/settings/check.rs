//! Settings that are each valid and contradict each other.

use std::ops::RangeInclusive;
use std::time::Duration;

use ragwire::Turn;
use ragwire::turn::RedisError;
use ragwire_rag::answer::MAX_QUESTION_BYTES;
use ragwire_rag::models::upstream::parse_address;

use super::values::Size;
use super::{Settings, engines, orchestrator};

/// With a shorter lease or retry a loaded machine looks dead; no user waits longer.
const REDIS_TIMES: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Settings that are each valid and contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(String);

impl Contradiction {
    /// Creates an error with this message, which names the setting.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

impl Settings {
    /// Checks that the settings do not contradict each other.
    ///
    /// # Errors
    ///
    /// The first [`Contradiction`].
    pub fn check(&self) -> Result<(), Contradiction> {
        self.check_times()?;
        self.check_sizes()?;
        if let Err(error) = self.redis_options() {
            let fix = match error {
                RedisError::Url { .. } => {
                    "; write redis://host:6379, redis://user:password@host:6379/0 or unix:///path (TLS is not supported)"
                }
                _ => "",
            };
            return Err(Contradiction(format!("redis: {error}{fix}")));
        }
        // First, because an orchestrator takes the place of all models.
        orchestrator::check(self)?;
        engines::check::check(self)?;
        if self.watch && self.docs.is_empty() {
            return Err(Contradiction(
                "watch needs files or folders to follow: name them with docs".into(),
            ));
        }
        if self.api_keys.is_some() && self.owner_header.is_some() {
            return Err(Contradiction(
                "api-keys and owner-header contradict each other: both name the user of a request".into(),
            ));
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Contradiction(
                "tls-cert and tls-key belong together: set both or neither".into(),
            ));
        }
        if *self.pad_to > Turn::MAX_PAD_TO {
            return Err(Contradiction(format!(
                "pad-to ({}) must not be more than {} bytes",
                self.pad_to,
                Turn::MAX_PAD_TO
            )));
        }
        self.check_traces()?;
        self.check_hosts()
    }

    fn check_traces(&self) -> Result<(), Contradiction> {
        let Some(url) = self.otlp_url.as_deref() else {
            return Ok(());
        };
        if !cfg!(feature = "otel") {
            return Err(engines::check::not_built("otlp-url", "otel"));
        }
        match parse_address(url) {
            Ok(_) => Ok(()),
            Err(error) => Err(Contradiction(format!(
                "otlp-url: {error}; write http://127.0.0.1:4318"
            ))),
        }
    }

    fn check_times(&self) -> Result<(), Contradiction> {
        if self.keep_alive >= self.idle_timeout {
            return Err(Contradiction(format!(
                "keep-alive ({}) must be less than idle-timeout ({})",
                self.keep_alive, self.idle_timeout
            )));
        }
        // Equal is valid: only the turn's time-out has an effect then.
        if self.idle_timeout > self.turn_timeout {
            return Err(Contradiction(format!(
                "idle-timeout ({}) must not be more than turn-timeout ({})",
                self.idle_timeout, self.turn_timeout
            )));
        }
        for (name, time) in [
            ("redis-lease", self.redis_lease),
            ("redis-retry", self.redis_retry),
        ] {
            if !REDIS_TIMES.contains(&*time) {
                return Err(Contradiction(format!("{name} ({time}) must be from 100ms to 1h")));
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), Contradiction> {
        if *self.max_question > MAX_QUESTION_BYTES {
            return Err(Contradiction(format!(
                "max-question ({}) must not be more than {}, the limit of the pipeline",
                self.max_question,
                Size(MAX_QUESTION_BYTES)
            )));
        }
        let (upload, share) = (
            self.max_upload_body(),
            self.client_share.of(*self.max_body_memory),
        );
        if share < upload {
            return Err(Contradiction(format!(
                "max-body-memory ({}) is too small: client-share ({}) of it is less than one upload of \
                 max-upload-size ({}); raise the former or lower the latter",
                self.max_body_memory, self.client_share, self.max_upload_size
            )));
        }
        if *self.journal_turns < *self.max_turns + *self.max_queued {
            return Err(Contradiction(format!(
                "journal-turns ({}) must not be less than max-turns ({}) and max-queued ({}) together: the \
                 journal stores running and waiting turns",
                self.journal_turns, self.max_turns, self.max_queued
            )));
        }
        if self.journal_turn_size > self.journal_size {
            return Err(Contradiction(format!(
                "journal-turn-size ({}) must not be more than journal-size ({}), the size of all turns together",
                self.journal_turn_size, self.journal_size
            )));
        }
        if *self.session_turns < 2 {
            return Err(Contradiction(
                "session-turns must be at least 2: a question and its answer".into(),
            ));
        }
        if self.max_question > self.session_size {
            return Err(Contradiction(format!(
                "max-question ({}) must not be more than session-size ({}): the session stores the question",
                self.max_question, self.session_size
            )));
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), Contradiction> {
        for origin in &self.allow_origin {
            let authority = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"));
            let is_plain = |authority: &str| !authority.is_empty() && !authority.contains(['/', '*', ' ']);
            if !authority.is_some_and(is_plain) {
                return Err(Contradiction(format!(
                    "allow-origin `{origin}` is not an origin; write https://example.org"
                )));
            }
        }
        for host in &self.allow_host {
            if host.is_empty() || host.contains(['/', '*', ' ', '@']) {
                return Err(Contradiction(format!(
                    "allow-host `{host}` is not a host name; write example.org"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::values::{Count, CountOrZero, File, Header, Name, RedisUrl, Size, Span};
    use super::*;

    #[test]
    fn the_defaults_are_consistent() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn contradictions_name_the_setting() {
        type Change = fn(&mut Settings);
        let cases: &[(Change, &str)] = &[
            (|s| s.keep_alive = s.idle_timeout, "keep-alive"),
            (|s| s.idle_timeout = Span(*s.turn_timeout * 2), "idle-timeout"),
            (|s| s.session_turns = Count(1), "session-turns"),
            (|s| s.journal_turns = Count(127), "journal-turns"),
            (
                |s| s.journal_turn_size = Size(*s.journal_size + 1),
                "journal-turn-size",
            ),
            (|s| s.redis = RedisUrl(Some("http://:s3cret@a".into())), "redis: "),
            (|s| s.redis_prefix = Name("{a}".into()), "redis: "),
            (
                |s| s.redis_lease = Span(Duration::from_millis(10)),
                "redis-lease (10ms)",
            ),
            (|s| s.redis_retry = Span(Duration::from_secs(3601)), "redis-retry"),
            (
                |s| s.max_body_memory = Size(*s.max_upload_size),
                "max-body-memory",
            ),
            (|s| s.max_question = Size(1 << 30), "max-question"),
            (
                |s| {
                    s.api_keys = File(Some("keys".into()));
                    s.owner_header = Header(Some(http::header::FROM));
                },
                "api-keys",
            ),
            (
                |s| s.tls_key = File(Some("key.pem".into())),
                "tls-cert and tls-key",
            ),
            (|s| s.pad_to = CountOrZero(4097), "pad-to (4097)"),
            (|s| s.watch = true, "watch"),
            (|s| s.allow_origin = vec!["*".into()], "allow-origin"),
            (|s| s.allow_host = vec!["http://a".into()], "allow-host"),
        ];
        for (change, named) in cases {
            let mut settings = Settings::default();
            change(&mut settings);
            let error = settings.check().unwrap_err();
            assert!(error.to_string().starts_with(named), "{error}");
            assert!(!error.to_string().contains("s3cret"), "{error}");
        }
    }
}
