//! The tests that every store passes.

use std::time::Duration;

use serde_json::json;

use super::{Fixture, Storage, small, texts};
use crate::session::key::MAX_OWNER_BYTES;
use crate::session::{MAX_TITLE_CHARS, Role, SessionError, SessionLimits};

pub(super) async fn the_oldest_messages_are_dropped_first(storage: impl Storage) {
    let fixture = Fixture::new(storage, small()).await;
    let sessions = &fixture.sessions;
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
}

pub(super) async fn a_session_has_a_title_and_times(storage: impl Storage) {
    let fixture = Fixture::new(storage, SessionLimits::default()).await;
    let (sessions, clock) = (&fixture.sessions, &fixture.clock);
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
    let long = sessions
        .begin("o", Some("é".repeat(MAX_TITLE_CHARS + 1)))
        .await
        .unwrap();
    assert_eq!(long.title, Some("é".repeat(MAX_TITLE_CHARS)));
    let answered = sessions.begin("o", None).await.unwrap();
    let answered = sessions.append("o", answered.id(), Role::Assistant, "A").await;
    assert_eq!(answered.unwrap().title, None);
}

pub(super) async fn sessions_are_bounded_in_number_and_age(storage: impl Storage) {
    let fixture = Fixture::new(storage, small()).await;
    let (sessions, clock) = (&fixture.sessions, &fixture.clock);
    for id in ["a", "b"] {
        sessions.get_or_begin("", id).await.unwrap();
    }
    sessions.append("", "a", Role::User, "x").await.unwrap();
    sessions.get_or_begin("other", "c").await.unwrap();
    assert_eq!(texts(&sessions.get("", "a").await.unwrap()), ["x"]);
    assert_eq!(sessions.get("", "b").await.unwrap_err().code(), "unknown_session");
    assert_eq!(sessions.sweep().await.unwrap(), 2);
    clock.advance(Duration::from_secs(59));
    // A read does not extend the lifetime.
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
    assert!(!sessions.delete("", "a").await.unwrap());
    assert_eq!(texts(&sessions.get("other", "c").await.unwrap()), ["y"]);
    assert_eq!(sessions.sweep().await.unwrap(), 1);
    clock.advance(Duration::from_secs(61));
    assert_eq!(sessions.sweep().await.unwrap(), 0);
    // The same ID begins a new session.
    let again = sessions.get_or_begin("other", "c").await.unwrap();
    assert_eq!((texts(&again), &again.title), (Vec::new(), &None));
}

pub(super) async fn another_owners_unknown_and_expired_sessions_give_the_same_error(storage: impl Storage) {
    let fixture = Fixture::new(storage, small()).await;
    let (sessions, clock) = (&fixture.sessions, &fixture.clock);
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
        ("alice", "unknown"),
        ("alice", "../x"),
        ("alice", ""),
        (&longest, hers.id()),
    ] {
        let update = sessions.update(owner, id, |session| {
            session.push(Role::User, "2");
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
        assert!(!sessions.delete(owner, id).await.unwrap());
    }
    assert_eq!(texts(&sessions.get("alice", hers.id()).await.unwrap()), ["1"]);
    // The same ID of another owner is another session.
    let his = sessions.get_or_begin("bob", hers.id()).await.unwrap();
    assert_eq!(texts(&his), Vec::<&str>::new());
    assert!(sessions.delete("bob", hers.id()).await.unwrap());
    assert_eq!(texts(&sessions.get("alice", hers.id()).await.unwrap()), ["1"]);
    let bad = sessions.get_or_begin("alice", "a b").await.unwrap_err();
    assert_eq!(bad.code(), "bad_session_id");
    let bad = sessions.begin(&longest, None).await.unwrap_err();
    assert_eq!(bad.code(), "bad_session_owner");
}

pub(super) async fn an_owner_lists_their_own_sessions_newest_first(storage: impl Storage) {
    let limits = SessionLimits::default()
        .max_sessions(4)
        .max_age(Duration::from_secs(60));
    let fixture = Fixture::new(storage, limits).await;
    let (sessions, clock) = (&fixture.sessions, &fixture.clock);
    let ids = async |owner: &'static str, limit| -> Vec<String> {
        let listed = sessions.list(owner, limit).await.unwrap();
        listed.iter().map(|session| session.id().to_owned()).collect()
    };
    assert_eq!(ids("ada", 9).await, Vec::<String>::new());
    for (owner, id) in [("ada", "1"), ("ad", "x"), ("ada", "2"), ("ada\0b", "y")] {
        sessions.get_or_begin(owner, id).await.unwrap();
    }
    clock.advance(Duration::from_secs(30));
    let first = sessions.append("ada", "1", Role::User, "a").await.unwrap();
    assert_eq!(sessions.list("ada", 1).await.unwrap(), [first]);
    assert_eq!(ids("ada", 9).await, ["1", "2"]);
    assert_eq!(ids("", 9).await, Vec::<String>::new());
    // A fifth session evicts the one unchanged for longest, of another owner.
    sessions.get_or_begin("ada", "3").await.unwrap();
    assert_eq!(ids("ad", 9).await, Vec::<String>::new());
    assert_eq!(ids("ada", 2).await, ["3", "1"]);
    assert!(sessions.delete("ada", "3").await.unwrap());
    assert_eq!(ids("ada", 9).await, ["1", "2"]);
    clock.advance(Duration::from_secs(31));
    assert_eq!(ids("ada", 9).await, ["1"]);
}

pub(super) async fn owners_and_ids_never_collide(storage: impl Storage) {
    let fixture = Fixture::new(storage, SessionLimits::default()).await;
    let sessions = &fixture.sessions;
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
        let text = format!("{owner}/{id}");
        sessions.append(owner, id, Role::User, &text).await.unwrap();
    }
    for (owner, id) in keys {
        let session = sessions.get(owner, id).await.unwrap();
        assert_eq!(texts(&session), [format!("{owner}/{id}")]);
    }
}

pub(super) async fn a_failed_change_changes_nothing(storage: impl Storage) {
    let fixture = Fixture::new(storage, small()).await;
    let sessions = &fixture.sessions;
    let begun = sessions.begin("o", None).await.unwrap();
    let id = begun.id();
    let (changed, given) = sessions
        .update("o", id, |session| {
            session.state = json!({"token": "1234567"});
            session.push(Role::User, "x");
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
}

pub(super) async fn concurrent_changes_are_each_applied_once(storage: impl Storage) {
    let fixture = Fixture::new(storage, SessionLimits::default().max_messages(1000)).await;
    let sessions = &fixture.sessions;
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
                        session.push(Role::User, format!("{writer} {number}"));
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
        let prefix = format!("{writer} ");
        let mut found = texts(&session);
        found.retain(|text| text.starts_with(&prefix));
        let expected: Vec<String> = (0..10).map(|number| format!("{prefix}{number}")).collect();
        assert_eq!(found, expected);
    }
}

/// A session as a lock: many tasks claim it, as several hosts would, and one of them gets it.
pub(super) async fn only_one_of_many_claims_succeeds(storage: impl Storage) {
    let fixture = Fixture::new(storage, SessionLimits::default()).await;
    let sessions = &fixture.sessions;
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
}

pub(super) async fn a_restart_loses_no_acknowledged_change(storage: impl Storage) {
    let mut fixture = Fixture::new(storage, SessionLimits::default()).await;

    let begun = fixture.sessions.begin("o", Some("T".into())).await.unwrap();
    let mut before = begun.clone();
    for number in 0..3 {
        let (changed, ()) = fixture
            .sessions
            .update("o", begun.id(), |session| {
                session.push(Role::Assistant, format!("{number}"));
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
    assert!(fixture.sessions.delete("o", begun.id()).await.unwrap());
    fixture = fixture.restart().await;
    assert_eq!(fixture.sessions.sweep().await.unwrap(), 0);
}

pub(super) async fn debug_output_contains_no_text(storage: impl Storage) {
    let fixture = Fixture::new(storage, SessionLimits::default()).await;
    let sessions = &fixture.sessions;
    let secret = "heliotrope";
    let session = sessions
        .begin_with(secret, secret, |session| {
            session.push(Role::User, secret);
            session.state = secret.into();
        })
        .await
        .unwrap();
    assert_eq!(texts(&session), [secret]);
    let output = format!("{session:?} {session:#?} {sessions:?} {:?}", session.messages);
    assert!(!output.contains(secret), "{output}");
}
