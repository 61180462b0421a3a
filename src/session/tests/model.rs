//! Every store compared with a plain map, call by call.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::memory::Memory;
use super::{Fixture, Storage};
use crate::session::{Message, Role, SessionError, SessionLimits};

const OWNERS: [&str; 3] = ["", "alice", "bob"];
const IDS: [&str; 3] = ["a", "b", "c"];
/// No multiple of it equals the maximum age: the microseconds that the test itself takes would
/// decide whether a session has expired.
const STEP: u64 = 25;

const LIMITS: SessionLimits = SessionLimits {
    max_sessions: 4,
    max_messages: 3,
    max_bytes: 12,
    max_state_bytes: 8,
    max_age: Duration::from_secs(60),
};

#[derive(Clone, Debug)]
pub(super) enum Step {
    Begin(usize, usize),
    Append(usize, usize, bool, String),
    State(usize, usize, u32),
    Fail(usize, usize),
    Delete(usize, usize),
    Get(usize, usize),
    Sweep,
    Wait,
    Restart,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (owner, id) = (0..OWNERS.len(), 0..IDS.len());
    let key = || (owner.clone(), id.clone());
    let step = prop_oneof![
        4 => key().prop_map(|(owner, id)| Step::Begin(owner, id)),
        6 => (key(), any::<bool>(), "[a-zé\n]{0,6}")
            .prop_map(|((owner, id), user, text)| Step::Append(owner, id, user, text)),
        3 => (key(), prop_oneof![0..100_u32, 10_000_000..20_000_000_u32, 1_000_000_000..2_000_000_000_u32])
            .prop_map(|((owner, id), state)| Step::State(owner, id, state)),
        1 => key().prop_map(|(owner, id)| Step::Fail(owner, id)),
        1 => key().prop_map(|(owner, id)| Step::Delete(owner, id)),
        2 => key().prop_map(|(owner, id)| Step::Get(owner, id)),
        1 => Just(Step::Sweep),
        2 => Just(Step::Wait),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..40)
}

#[derive(Clone, Debug, Default, PartialEq)]
struct PlainSession {
    title: Option<String>,
    messages: Vec<Message>,
    state: Value,
    /// The second of its last change, and the number of that change.
    changed: (u64, u64),
}

#[derive(Debug, Default)]
struct Model {
    sessions: BTreeMap<(usize, usize), PlainSession>,
    now: u64,
    changes: u64,
}

impl Model {
    fn expire(&mut self) {
        let now = self.now;
        self.sessions
            .retain(|_, session| now - session.changed.0 <= LIMITS.max_age.as_secs());
    }

    fn touch(&mut self, key: (usize, usize)) {
        self.changes += 1;
        let changed = (self.now, self.changes);
        self.sessions.entry(key).or_default().changed = changed;
        while self.sessions.len() > LIMITS.max_sessions {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.changed.1);
            let oldest = *oldest.unwrap().0;
            self.sessions.remove(&oldest);
        }
    }

    fn append(&mut self, key: (usize, usize), role: Role, text: &str) -> bool {
        let Some(session) = self.sessions.get_mut(&key) else {
            return false;
        };
        if session.title.is_none() && role == Role::User {
            let line = text.trim().split('\n').next().unwrap();
            if !line.is_empty() {
                session.title = Some(line.trim_end().to_owned());
            }
        }
        let mut text = text.to_owned();
        while text.len() > LIMITS.max_bytes {
            text.pop();
        }
        session.messages.push(Message::new(role, text));
        let bytes = |messages: &[Message]| messages.iter().map(|message| message.text.len()).sum::<usize>();
        while session.messages.len() > LIMITS.max_messages || bytes(&session.messages) > LIMITS.max_bytes {
            session.messages.remove(0);
        }
        self.touch(key);
        true
    }
}

async fn compare(storage: impl Storage, steps: Vec<Step>) {
    let mut fixture = Fixture::new(storage, LIMITS).await;
    let mut model = Model::default();
    for step in steps {
        let sessions = &fixture.sessions;
        model.expire();
        match step {
            Step::Begin(owner, id) => {
                let begun = sessions.get_or_begin(OWNERS[owner], IDS[id]).await.unwrap();
                if !model.sessions.contains_key(&(owner, id)) {
                    model.touch((owner, id));
                }
                let plain = &model.sessions[&(owner, id)];
                assert_eq!((&begun.messages, &begun.title), (&plain.messages, &plain.title));
            }
            Step::Append(owner, id, user, text) => {
                let role = if user { Role::User } else { Role::Assistant };
                let appended = sessions.append(OWNERS[owner], IDS[id], role, &text).await;
                let exists = model.append((owner, id), role, &text);
                assert_eq!(appended.is_ok(), exists, "{appended:?}");
            }
            Step::State(owner, id, state) => {
                let updated = sessions.update(OWNERS[owner], IDS[id], |session| {
                    let before = std::mem::replace(&mut session.state, json!(state));
                    Ok::<_, SessionError>(before)
                });
                let updated = updated.await.map(|(_, before)| before);
                let found = model.sessions.get_mut(&(owner, id));
                match (updated, found) {
                    (Ok(before), Some(plain)) => {
                        assert!(state < 100_000_000);
                        assert_eq!(before, std::mem::replace(&mut plain.state, json!(state)));
                        model.touch((owner, id));
                    }
                    (Err(SessionError::StateTooLarge { max_bytes: 8 }), Some(_)) => {
                        assert!(state >= 100_000_000);
                    }
                    (Err(SessionError::Unknown), None) => {}
                    other => panic!("{other:?}"),
                }
            }
            Step::Fail(owner, id) => {
                let failed = sessions.update(OWNERS[owner], IDS[id], |session| {
                    session.messages.clear();
                    Err::<(), _>(SessionError::Contended)
                });
                let expected = if model.sessions.contains_key(&(owner, id)) {
                    "session_contended"
                } else {
                    "unknown_session"
                };
                assert_eq!(failed.await.unwrap_err().code(), expected);
            }
            Step::Delete(owner, id) => {
                let deleted = sessions.delete(OWNERS[owner], IDS[id]).await.unwrap();
                assert_eq!(deleted, model.sessions.remove(&(owner, id)).is_some());
            }
            Step::Get(owner, id) => {
                let found = sessions.get(OWNERS[owner], IDS[id]).await.ok();
                let plain = model.sessions.get(&(owner, id));
                assert_eq!(
                    found.map(|found| found.messages),
                    plain.map(|plain| plain.messages.clone())
                );
            }
            Step::Sweep => assert_eq!(sessions.sweep().await.unwrap(), model.sessions.len()),
            Step::Wait => {
                fixture.clock.advance(Duration::from_secs(STEP));
                model.now += STEP;
            }
            Step::Restart => fixture = fixture.restart().await,
        }
    }
    model.expire();
    for (owner, id) in (0..OWNERS.len()).flat_map(|owner| (0..IDS.len()).map(move |id| (owner, id))) {
        let found = fixture.sessions.get(OWNERS[owner], IDS[id]).await.ok();
        let found = found.map(|found| (found.title, found.messages, found.state));
        let plain = model.sessions.get(&(owner, id)).cloned();
        assert_eq!(
            found,
            plain.map(|plain| (plain.title, plain.messages, plain.state))
        );
    }
    assert_eq!(fixture.sessions.sweep().await.unwrap(), model.sessions.len());
}

pub(super) fn run(storage: impl Storage, steps: Vec<Step>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(compare(storage, steps));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn memory_behaves_like_a_plain_map(steps in steps()) {
        run(Memory, steps);
    }
}
