//! One suite for all stores (`suite.rs`), the comparison of each store with a plain map
//! (`model.rs`), and what is special about files and servers (`file.rs`, `redis.rs`).

#[cfg(feature = "sqlite")]
mod file;
mod memory;
mod model;
#[cfg(feature = "redis")]
mod redis;
mod suite;

use std::time::Duration;

use super::clock::Clock;
use super::key::MAX_ID_BYTES;
use super::{Message, Role, Session, SessionLimits, Sessions};

/// A place where sessions are stored, from which a store can be opened again.
trait Storage {
    /// Whether sessions outlive the store that wrote them.
    const SURVIVES_RESTART: bool = true;

    async fn open(&self, limits: SessionLimits, clock: Clock) -> Sessions;
}

/// A store and its clock.
struct Fixture<S> {
    storage: S,
    sessions: Sessions,
    clock: Clock,
}

impl<S: Storage> Fixture<S> {
    async fn new(storage: S, limits: SessionLimits) -> Self {
        let clock = Clock::default();
        Self {
            sessions: storage.open(limits, clock.clone()).await,
            storage,
            clock,
        }
    }

    /// Closes the store and opens it again.
    async fn restart(mut self) -> Self {
        if S::SURVIVES_RESTART {
            let limits = *self.sessions.limits();
            // A file has to be closed before it is opened again.
            self.sessions = Sessions::in_memory(limits);
            self.sessions = self.storage.open(limits, self.clock.clone()).await;
        }
        self
    }
}

/// Runs every test of the suite on the storage that `$storage` creates.
macro_rules! run_suite {
    ($storage:expr) => {
        run_suite! { @each $storage;
            the_oldest_messages_are_dropped_first,
            a_session_has_a_title_and_times,
            sessions_are_bounded_in_number_and_age,
            another_owners_unknown_and_expired_sessions_give_the_same_error,
            owners_and_ids_never_collide,
            an_owner_lists_their_own_sessions_newest_first,
            a_failed_change_changes_nothing,
            concurrent_changes_are_each_applied_once,
            only_one_of_many_claims_succeeds,
            a_restart_loses_no_acknowledged_change,
            debug_output_contains_no_text,
        }
    };
    (@each $storage:expr; $($test:ident,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            crate::session::tests::suite::$test($storage).await;
        }
    )*};
}
use run_suite;

fn small() -> SessionLimits {
    SessionLimits::default()
        .max_sessions(2)
        .max_messages(3)
        .max_bytes(10)
        .max_state_bytes(20)
        .max_age(Duration::from_secs(60))
}

fn texts(session: &Session) -> Vec<&str> {
    session.messages.iter().map(|message| &*message.text).collect()
}

#[test]
fn ids_are_of_a_safe_character_set() {
    let long = "a".repeat(MAX_ID_BYTES);
    for id in ["a", "demo", "0f-9_A.b", &long] {
        assert!(Sessions::is_id(id), "{id}");
    }
    let longer = "a".repeat(MAX_ID_BYTES + 1);
    for id in [
        "", ".", "..", "a/b", "a b", "a:b", "a*", "{}", "a\n", "a\0", "é", "%2e", &longer,
    ] {
        assert!(!Sessions::is_id(id), "{id}");
    }
    let (one, other) = (Sessions::random_id().unwrap(), Sessions::random_id().unwrap());
    assert!(one != other && one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn the_newest_of_a_clients_messages_are_taken() {
    let limits = small();
    let messages = ["1", "2", "12345678", "12345678"].map(|text| Message::new(Role::User, text));
    assert_eq!(limits.newest(messages[..3].to_vec()), messages[..3]);
    assert_eq!(limits.newest(messages.to_vec()), messages[3..]);
    assert_eq!(
        limits.newest(vec![Message::new(Role::User, "1234567ééé")]),
        [Message::new(Role::User, "1234567é")]
    );
    assert_eq!(limits.newest(Vec::new()), []);
}
