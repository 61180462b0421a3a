//! A change of the messages of a thread by hand, as LangGraph's reducer of messages does it.

use ragwire::session::{Message, Role, Session};
use serde_json::Value;

use super::objects::{StateUpdate, StateUpdated, ThreadStatus};
use super::record::ThreadRecord;
use super::state::{self, Snapshot};
use super::{conflict, run};
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::request::invalid;

/// The ID that removes all messages.
const ALL: &str = "__remove_all__";

/// One change.
#[derive(Debug, PartialEq)]
enum Change {
    /// Replaces the message with this ID, or adds it at the end.
    Put(Option<String>, Message),
    Remove(String),
    RemoveAll,
}

/// Changes the messages of a thread and returns its new state.
pub(super) async fn update(
    caller: &Caller,
    thread: &str,
    update: StateUpdate,
) -> Result<StateUpdated, Refusal> {
    let snapshot = Snapshot::read(caller, thread).await?;
    if snapshot.status() == ThreadStatus::Busy {
        return Err(run::busy());
    }
    let current = state::checkpoint(snapshot.session()).checkpoint_id;
    let of_object = update
        .checkpoint
        .as_ref()
        .and_then(|of| of.get("checkpoint_id")?.as_str());
    if [update.checkpoint_id.as_deref(), of_object]
        .into_iter()
        .flatten()
        .any(|id| id != current)
    {
        return Err(conflict(
            "earlier_checkpoint",
            "Only the current state of a thread can be changed; earlier ones are not kept.",
        ));
    }
    let changes = changes(&update.values)?;
    let shown = snapshot.messages();
    let change = |session: &mut Session| {
        if session.updated() != snapshot.session().updated() {
            return Err(conflict(
                "thread_changed",
                "The thread has changed in the meantime.",
            ));
        }
        apply(&changes, &shown, session)?;
        ThreadRecord::change(session, |record| {
            record.edited = snapshot.run_id().map(|id| id.to_string());
        });
        Ok(())
    };
    let sessions = &caller.shared.sessions;
    let (session, ()) = sessions.update(caller.owner.as_str(), thread, change).await?;
    Ok(StateUpdated {
        checkpoint: Some(state::checkpoint(&session)),
    })
}

/// Reads the changes of a request. Only messages are kept, so nothing else can be changed.
fn changes(values: &Value) -> Result<Vec<Change>, Refusal> {
    let members = match values {
        Value::Null => return Ok(Vec::new()),
        Value::Object(members) => members,
        _ => return Err(invalid("`values` must be an object with `messages`.")),
    };
    if let Some(name) = members.keys().find(|name| *name != "messages") {
        return Err(invalid(format!(
            "`values.{name}` is not kept; a thread has `messages` only."
        )));
    }
    match members.get("messages") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(messages)) => messages.iter().map(change).collect(),
        Some(message) => Ok(vec![change(message)?]),
    }
}

fn change(message: &Value) -> Result<Change, Refusal> {
    let id = message["id"].as_str().map(str::to_owned);
    if message["type"] == "remove" {
        return match id {
            Some(id) if id == ALL => Ok(Change::RemoveAll),
            Some(id) => Ok(Change::Remove(id)),
            None => Err(invalid("A message of the type `remove` has no `id`.")),
        };
    }
    let read = run::message(message);
    let message =
        read.ok_or_else(|| invalid("A thread has messages of the types `human` and `ai` with text."))?;
    Ok(Change::Put(id, message))
}

/// Applies changes to a session whose messages a client has seen as `shown`.
fn apply(changes: &[Change], shown: &[Value], session: &mut Session) -> Result<(), Refusal> {
    let ids = Ids {
        thread: session.id().to_owned(),
        answer: session
            .messages
            .iter()
            .rposition(|message| message.role == Role::Assistant),
        shown,
    };
    let mut messages: Vec<Option<Message>> = session.messages.drain(..).map(Some).collect();
    for change in changes {
        match change {
            Change::RemoveAll => messages.clear(),
            Change::Remove(id) => match ids.position(id).and_then(|at| messages.get_mut(at)) {
                Some(message) => *message = None,
                None => {
                    return Err(conflict(
                        "unknown_message",
                        "A message to remove is not in the thread.",
                    ));
                }
            },
            Change::Put(id, message) => {
                let at = id.as_deref().and_then(|id| ids.position(id));
                match at.and_then(|at| messages.get_mut(at)) {
                    Some(old) => *old = Some(message.clone()),
                    None => messages.push(Some(message.clone())),
                }
            }
        }
    }
    session.messages = messages.into_iter().flatten().collect();
    Ok(())
}

/// The IDs of the messages of a thread.
struct Ids<'a> {
    thread: String,
    /// The place of the newest answer.
    answer: Option<usize>,
    /// The messages as the client has them.
    shown: &'a [Value],
}

impl Ids<'_> {
    /// Returns the place of a message in the session. The newest run gives its messages IDs of its
    /// own; all of them together are the answer.
    fn position(&self, id: &str) -> Option<usize> {
        let number = id
            .strip_prefix(&*self.thread)
            .and_then(|rest| rest.strip_prefix('-'));
        if let Some(at) = number.and_then(|number| number.parse().ok()) {
            return Some(at);
        }
        let is_shown = |message: &Value| message["id"] == id && message["type"] == "ai";
        self.answer.filter(|_| self.shown.iter().any(is_shown))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(role: Role, text: &str) -> Message {
        Message::new(role, text)
    }

    #[test]
    fn changes_are_read_or_refused() {
        let values = json!({ "messages": [
            { "type": "human", "content": "Why?", "id": "t-0" },
            ["ai", "So."],
            { "type": "remove", "id": "t-1" },
            { "type": "remove", "id": ALL },
        ] });
        assert_eq!(
            changes(&values).unwrap(),
            [
                Change::Put(Some("t-0".into()), message(Role::User, "Why?")),
                Change::Put(None, message(Role::Assistant, "So.")),
                Change::Remove("t-1".into()),
                Change::RemoveAll,
            ]
        );
        for nothing in [json!(null), json!({}), json!({ "messages": null })] {
            assert_eq!(changes(&nothing).unwrap(), []);
        }
        for refused in [
            json!([]),
            json!({ "messages": [], "topic": 1 }),
            json!({ "messages": [{ "type": "tool", "content": "x", "tool_call_id": "c" }] }),
            json!({ "messages": [{ "type": "human", "content": "" }] }),
            json!({ "messages": [{ "type": "remove" }] }),
        ] {
            assert_eq!(changes(&refused).unwrap_err().status, 422, "{refused}");
        }
    }

    #[tokio::test]
    async fn messages_are_replaced_removed_and_added() {
        let sessions = ragwire::session::Sessions::in_memory(ragwire::session::SessionLimits::default());
        let shown = [
            json!({ "type": "human", "id": "t-0" }),
            json!({ "type": "ai", "id": "run-1-message-0" }),
        ];
        for (changes, expected) in [
            (
                vec![Change::Put(None, message(Role::User, "And?"))],
                Some("One? Yes. And?"),
            ),
            (
                vec![Change::Put(Some("t-0".into()), message(Role::User, "Two?"))],
                Some("Two? Yes."),
            ),
            (
                vec![Change::Put(
                    Some("run-1-message-0".into()),
                    message(Role::Assistant, "No."),
                )],
                Some("One? No."),
            ),
            (
                vec![Change::Put(Some("new".into()), message(Role::Assistant, "No."))],
                Some("One? Yes. No."),
            ),
            (
                vec![Change::Remove("t-0".into()), Change::Remove("t-1".into())],
                Some(""),
            ),
            (
                vec![Change::RemoveAll, Change::Put(None, message(Role::User, "A"))],
                Some("A"),
            ),
            (vec![Change::Remove("t-7".into())], None),
        ] {
            let mut session = sessions.begin("", None).await.unwrap();
            session.push(Role::User, "One?");
            session.push(Role::Assistant, "Yes.");
            let shown: Vec<Value> = serde_json::from_str(
                &json!(shown)
                    .to_string()
                    .replace("t-0", &format!("{}-0", session.id())),
            )
            .unwrap();
            let id = |id: &str| id.replace("t-", &format!("{}-", session.id()));
            let changes: Vec<Change> = changes
                .into_iter()
                .map(|change| match change {
                    Change::Put(at, message) => Change::Put(at.map(|at| id(&at)), message),
                    Change::Remove(at) => Change::Remove(id(&at)),
                    Change::RemoveAll => Change::RemoveAll,
                })
                .collect();
            let applied = apply(&changes, &shown, &mut session);
            assert_eq!(applied.is_ok(), expected.is_some());
            if let Some(expected) = expected {
                let texts: Vec<&str> = session.messages.iter().map(|message| &*message.text).collect();
                assert_eq!(texts.join(" "), expected);
            }
        }
    }
}
