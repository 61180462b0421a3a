//! The threads of an owner, so that they can be searched: a store of sessions only finds a session
//! by its ID.
//!
//! The index is a session in a separate name space. Anonymous requests do not have one: anyone could
//! list the threads of all others, whose IDs are what protects them.

use ragwire::session::{Session, SessionError, Sessions};
use serde_json::json;

use crate::caller::Caller;
use crate::owner::Owner;

/// Number of threads of an owner that can be searched; those without a run for longest are dropped
/// first. As JSON their IDs are within the default limit of a session's state.
const MAX_THREADS: usize = 300;
/// The ID of the index in its name space.
const ID: &str = "threads";

/// The owner of an index. Names have no NUL.
fn space(owner: &Owner) -> Option<String> {
    Some(format!("langgraph\0{}", owner.name()?))
}

/// Returns the IDs of the owner's threads, the one that ran last first.
pub(super) async fn threads(caller: &Caller) -> Vec<String> {
    let Some(space) = space(&caller.owner) else {
        return Vec::new();
    };
    let index = caller.shared.sessions.get(&space, ID).await;
    index.map(|index| ids(&index)).unwrap_or_default()
}

fn ids(index: &Session) -> Vec<String> {
    serde_json::from_value(index.state.clone()).unwrap_or_default()
}

/// Moves a thread to the front. A failure is not reported: the thread is only not found by a search.
pub(super) async fn touch(caller: &Caller, thread: &str) {
    change(caller, |ids| {
        ids.retain(|id| id != thread);
        ids.insert(0, thread.to_owned());
        ids.truncate(MAX_THREADS);
    })
    .await;
}

/// Removes threads.
pub(super) async fn remove(caller: &Caller, threads: &[&str]) {
    change(caller, |ids| ids.retain(|id| !threads.contains(&&**id))).await;
}

async fn change(caller: &Caller, change: impl Fn(&mut Vec<String>)) {
    let (sessions, Some(space)) = (&caller.shared.sessions, space(&caller.owner)) else {
        return;
    };
    if let Err(error) = try_change(sessions, &space, change).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot index a thread");
    }
}

async fn try_change(
    sessions: &Sessions,
    space: &str,
    change: impl Fn(&mut Vec<String>),
) -> Result<(), SessionError> {
    sessions.get_or_begin(space, ID).await?;
    let update = |index: &mut Session| {
        let mut ids = ids(index);
        change(&mut ids);
        index.state = json!(ids);
        Ok::<_, SessionError>(())
    };
    sessions.update(space, ID, update).await?;
    Ok(())
}
