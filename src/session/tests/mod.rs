//! One suite for all stores. What only a file can do stands in `file.rs`, the comparison with a plain map in `model.rs`.

#[cfg(feature = "redb")]
mod file;
mod model;
#[cfg(feature = "redis")]
mod redis;

use std::ops::AsyncFn;
use std::time::Duration;

use serde_json::json;

use super::store::Clock;
use super::*;

/// A store, and the clock that it goes by.
struct Fixture {
    sessions: Sessions,
    clock: Clock,
    #[cfg(feature = "redb")]
    folder: Option<file::Folder>,
    #[cfg(feature = "redis")]
    server: Option<redis::Server>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Memory,
    #[cfg(feature = "redb")]
    File,
    #[cfg(feature = "redis")]
    Redis,
}

const KINDS: &[Kind] = &[
    Kind::Memory,
    #[cfg(feature = "redb")]
    Kind::File,
    #[cfg(feature = "redis")]
    Kind::Redis,
];

impl Fixture {
    async fn new(kind: Kind, limits: SessionLimits) -> Self {
        let clock = Clock::default();
        let fixture = |sessions| Self {
            sessions,
            clock: clock.clone(),
            #[cfg(feature = "redb")]
            folder: None,
            #[cfg(feature = "redis")]
            server: None,
        };
        match kind {
            Kind::Memory => fixture(Sessions::memory_with(limits, clock.clone())),
            #[cfg(feature = "redb")]
            Kind::File => {
                let folder = file::Folder::new();
                let sessions = Sessions::open_with(&folder.file(), limits, clock.clone()).await;
                Self {
                    folder: Some(folder),
                    ..fixture(sessions.unwrap())
                }
            }
            #[cfg(feature = "redis")]
            Kind::Redis => {
                let server = redis::Server::new(&[]);
                let sessions = Sessions::redis_with(&server.options(), limits, clock.clone()).await;
                Self {
                    server: Some(server),
                    ..fixture(sessions.unwrap())
                }
            }
        }
    }

    /// What a restart leaves: everything, where it is kept outside of the process.
    async fn restart(mut self) -> Self {
        let limits = *self.sessions.limits();
        #[cfg(feature = "redb")]
        if let Some(folder) = &self.folder {
            let file = folder.file();
            // The file is one store's at a time.
            self.sessions = Sessions::in_memory(limits);
            let sessions = Sessions::open_with(&file, limits, self.clock.clone()).await;
            self.sessions = sessions.unwrap();
        }
        #[cfg(feature = "redis")]
        if let Some(server) = &self.server {
            // Another host, whose clock does not matter.
            let sessions = Sessions::redis_with(&server.options(), limits, self.clock.clone()).await;
            self.sessions = sessions.unwrap();
        }
        let _ = limits;
        self
    }
}

async fn each(limits: SessionLimits, test: impl AsyncFn(Fixture)) {
    for kind in KINDS {
        test(Fixture::new(*kind, limits).await).await;
    }
}

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
fn ids_are_of_a_safe_set() {
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

#[tokio::test]
async fn the_oldest_messages_go_first() {
    each(small(), async |Fixture { sessions, .. }: Fixture| {
        sessions.get_or_begin("", "a").await.unwrap();
        for text in ["1", "2", "3"] {
            sessions.append("", "a", Role::User, text).await.unwrap();
        }
        let session = sessions.append("", "a", Role::User, "4").await.unwrap();
        assert_eq!(texts(&session), ["2", "3", "4"]);
        let session = sessions.append("", "a", Role::User, "12345678").await.unwrap();
        assert_eq!(texts(&session), ["3", "4", "12345678"]);
        let session = sessions.append("", "a", Role::User, "1234567ééé").await.unwrap();
        assert_eq!(texts(&session), ["1234567é"]);
        assert_eq!(sessions.get("", "a").await.unwrap(), session);
    })
    .await;
}

#[tokio::test]
async fn a_session_has_a_title_and_its_times() {
    each(
        SessionLimits::default(),
        async |Fixture { sessions, clock, .. }: Fixture| {
            let begun = sessions.begin("o", None).await.unwrap();
            assert_eq!((&begun.title, texts(&begun)), (&None, Vec::new()));
            assert_eq!(begun.created(), begun.updated());
            let question = format!("\n {}\u{e9}\nmore", "x".repeat(79));
            clock.advance(Duration::from_secs(1));
            let asked = sessions
                .append("o", begun.id(), Role::User, &question)
                .await
                .unwrap();
            assert_eq!(asked.title, Some("x".repeat(79)));
            assert_eq!(asked.created(), begun.created());
            assert!(asked.updated() >= begun.updated() + Duration::from_secs(1));
            let asked = sessions.append("o", begun.id(), Role::User, "y").await.unwrap();
            assert_eq!(asked.title, Some("x".repeat(79)));
            let titled = sessions.begin("o", Some("Mine".into())).await.unwrap();
            let titled = sessions.append("o", titled.id(), Role::User, "z").await.unwrap();
            assert_eq!(titled.title.as_deref(), Some("Mine"));
            let long = sessions.begin("o", Some("é".repeat(200))).await.unwrap();
            assert_eq!(long.title, Some("é".repeat(MAX_TITLE_BYTES / 2)));
            let answered = sessions.begin("o", None).await.unwrap();
            let answered = sessions.append("o", answered.id(), Role::Assistant, "A").await;
            assert_eq!(answered.unwrap().title, None);
        },
    )
    .await;
}

#[tokio::test]
async fn sessions_are_bounded_in_number_and_age() {
    each(small(), async |Fixture { sessions, clock, .. }: Fixture| {
        for id in ["a", "b"] {
            sessions.get_or_begin("", id).await.unwrap();
        }
        sessions.append("", "a", Role::User, "x").await.unwrap();
        sessions.get_or_begin("other", "c").await.unwrap();
        assert_eq!(texts(&sessions.get("", "a").await.unwrap()), ["x"]);
        assert_eq!(sessions.get("", "b").await.unwrap_err().code(), "unknown_session");
        assert_eq!(sessions.sweep().await.unwrap(), 2);
        clock.advance(Duration::from_secs(59));
        // Reading is no use.
        sessions.get("", "a").await.unwrap();
        sessions.append("other", "c", Role::User, "y").await.unwrap();
        clock.advance(Duration::from_secs(2));
        for result in [
            sessions.get("", "a").await,
            sessions.append("", "a", Role::User, "z").await,
            sessions
                .update("", "a", |_| Ok::<_, SessionError>(()))
                .await
                .map(|(session, ())| session),
        ] {
            assert_eq!(result.unwrap_err().code(), "unknown_session");
        }
        assert!(!sessions.forget("", "a").await.unwrap());
        assert_eq!(texts(&sessions.get("other", "c").await.unwrap()), ["y"]);
        assert_eq!(sessions.sweep().await.unwrap(), 1);
        clock.advance(Duration::from_secs(61));
        assert_eq!(sessions.sweep().await.unwrap(), 0);
        // One that is begun again under its old name is a new one.
        let again = sessions.get_or_begin("other", "c").await.unwrap();
        assert_eq!((texts(&again), &again.title), (Vec::new(), &None));
    })
    .await;
}

#[tokio::test]
async fn foreign_unknown_and_expired_are_the_same() {
    each(small(), async |Fixture { sessions, clock, .. }: Fixture| {
        let old = sessions.begin("alice", None).await.unwrap();
        clock.advance(Duration::from_secs(61));
        let hers = sessions.begin("alice", None).await.unwrap();
        sessions
            .append("alice", hers.id(), Role::User, "1")
            .await
            .unwrap();
        let longest = "a".repeat(MAX_OWNER_BYTES + 1);
        for (owner, id) in [
            ("mallory", hers.id()),
            ("", hers.id()),
            ("alice", old.id()),
            ("alice", "nobody"),
            ("alice", "../x"),
            ("alice", ""),
            (&longest, hers.id()),
        ] {
            let update = sessions.update(owner, id, |session| {
                session.say(Role::User, "2");
                Ok::<_, SessionError>(())
            });
            let errors = [
                sessions.get(owner, id).await.unwrap_err(),
                sessions.append(owner, id, Role::User, "2").await.unwrap_err(),
                update.await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(format!("{error:?} {error}"), "Unknown no such session");
            }
            assert!(!sessions.forget(owner, id).await.unwrap());
        }
        assert_eq!(texts(&sessions.get("alice", hers.id()).await.unwrap()), ["1"]);
        // The same name in another's space is another session.
        let his = sessions.get_or_begin("bob", hers.id()).await.unwrap();
        assert_eq!(texts(&his), Vec::<&str>::new());
        assert!(sessions.forget("bob", hers.id()).await.unwrap());
        assert_eq!(texts(&sessions.get("alice", hers.id()).await.unwrap()), ["1"]);
        let bad = sessions.get_or_begin("alice", "a b").await.unwrap_err();
        assert_eq!(bad.code(), "bad_session_id");
        let bad = sessions.begin(&longest, None).await.unwrap_err();
        assert_eq!(bad.code(), "bad_session_owner");
    })
    .await;
}

#[tokio::test]
async fn owners_and_ids_do_not_run_into_each_other() {
    let limits = SessionLimits::default();
    each(limits, async |Fixture { sessions, .. }: Fixture| {
        let keys = [
            ("a", "b"),
            ("", "ab"),
            ("ab", "a"),
            ("a\0b", "c"),
            ("a", "b.c"),
            ("a:1", "b"),
            ("a", "1.b"),
        ];
        for (owner, id) in keys {
            sessions.get_or_begin(owner, id).await.unwrap();
            let said = format!("{owner}/{id}");
            sessions.append(owner, id, Role::User, &said).await.unwrap();
        }
        for (owner, id) in keys {
            let session = sessions.get(owner, id).await.unwrap();
            assert_eq!(texts(&session), [format!("{owner}/{id}")]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_change_that_is_refused_changes_nothing() {
    each(small(), async |Fixture { sessions, .. }: Fixture| {
        let begun = sessions.begin("o", None).await.unwrap();
        let id = begun.id();
        let (changed, given) = sessions
            .update("o", id, |session| {
                session.state = json!({"token": "1234567"});
                session.say(Role::User, "x");
                Ok::<_, SessionError>(7)
            })
            .await
            .unwrap();
        assert_eq!((given, &changed.state), (7, &json!({"token": "1234567"})));
        let large = sessions
            .update("o", id, |session| {
                session.state = json!({"token": "123456789"});
                Ok::<_, SessionError>(())
            })
            .await
            .unwrap_err();
        assert_eq!(large.code(), "session_state_too_large");
        #[derive(Debug)]
        struct Busy;
        impl From<SessionError> for Busy {
            fn from(error: SessionError) -> Self {
                panic!("{error}")
            }
        }
        let busy = sessions
            .update("o", id, |session| {
                session.messages.clear();
                Err::<(), _>(Busy)
            })
            .await;
        assert!(matches!(busy, Err(Busy)));
        assert_eq!(sessions.get("o", id).await.unwrap(), changed);
        let refused = sessions
            .begin_with("o", "new", |session| session.state = "x".repeat(19).into())
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "session_state_too_large");
        assert_eq!(
            sessions.get("o", "new").await.unwrap_err().code(),
            "unknown_session"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_many_at_once_are_all_there_once() {
    let limits = SessionLimits::default().max_messages(1000);
    each(limits, async |Fixture { sessions, .. }: Fixture| {
        sessions.get_or_begin("o", "s").await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for writer in 0..8_u64 {
            let sessions = sessions.clone();
            tasks.spawn(async move {
                for number in 0..10_u64 {
                    let (_, before) = sessions
                        .update("o", "s", |session| {
                            let before = session.state.as_u64().unwrap_or_default();
                            session.state = (before + 1).into();
                            session.say(Role::User, format!("{writer} {number}"));
                            Ok::<_, SessionError>(before)
                        })
                        .await
                        .unwrap();
                    assert!(before < 80);
                }
            });
        }
        while let Some(joined) = tasks.join_next().await {
            joined.unwrap();
        }
        let session = sessions.get("o", "s").await.unwrap();
        assert_eq!(session.state, json!(80));
        for writer in 0..8 {
            let own = format!("{writer} ");
            let said: Vec<&str> = texts(&session);
            let said: Vec<&str> = said.into_iter().filter(|text| text.starts_with(&own)).collect();
            let expected: Vec<String> = (0..10).map(|number| format!("{own}{number}")).collect();
            assert_eq!(said, expected);
        }
    })
    .await;
}

/// What two hosts do with a session that only one of them may have.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_take_a_session_one_gets_it() {
    each(
        SessionLimits::default(),
        async |Fixture { sessions, .. }: Fixture| {
            sessions.get_or_begin("o", "s").await.unwrap();
            let mut tasks = tokio::task::JoinSet::new();
            for host in 0..16 {
                let sessions = sessions.clone();
                tasks.spawn(async move {
                    let taken = sessions.update("o", "s", |session| {
                        if session.state.is_null() {
                            session.state = host.into();
                            Ok(host)
                        } else {
                            Err(SessionError::Contended)
                        }
                    });
                    taken.await.map(|(_, host)| host).ok()
                });
            }
            let mut winners = Vec::new();
            while let Some(joined) = tasks.join_next().await {
                winners.extend(joined.unwrap());
            }
            assert_eq!(winners.len(), 1);
            assert_eq!(sessions.get("o", "s").await.unwrap().state, json!(winners[0]));
        },
    )
    .await;
}

#[tokio::test]
async fn a_restart_loses_nothing_that_was_acknowledged() {
    each(SessionLimits::default(), async |mut fixture: Fixture| {
        let begun = fixture.sessions.begin("o", Some("T".into())).await.unwrap();
        let mut before = begun.clone();
        for number in 0..3 {
            let (changed, ()) = fixture
                .sessions
                .update("o", begun.id(), |session| {
                    session.say(Role::Assistant, format!("{number}"));
                    session.state = json!({ "number": number });
                    Ok::<_, SessionError>(())
                })
                .await
                .unwrap();
            before = changed;
            fixture = fixture.restart().await;
            assert_eq!(fixture.sessions.get("o", begun.id()).await.unwrap(), before);
        }
        assert_eq!(texts(&before), ["0", "1", "2"]);
        assert!(fixture.sessions.forget("o", begun.id()).await.unwrap());
        fixture = fixture.restart().await;
        assert_eq!(fixture.sessions.sweep().await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn nothing_that_was_said_stands_in_a_log() {
    each(
        SessionLimits::default(),
        async |Fixture { sessions, .. }: Fixture| {
            let secret = "heliotrope";
            let session = sessions
                .begin_with(secret, secret, |session| {
                    session.say(Role::User, secret);
                    session.state = secret.into();
                })
                .await
                .unwrap();
            assert_eq!(texts(&session), [secret]);
            let told = format!("{session:?} {session:#?} {sessions:?} {:?}", session.messages);
            assert!(!told.contains(secret), "{told}");
        },
    )
    .await;
}

#[test]
fn the_newest_of_a_clients_own_memory_is_taken() {
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
