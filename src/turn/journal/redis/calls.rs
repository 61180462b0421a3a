//! Stops and answers for a turn of another host. They are sent to the inbox of that host, which
//! decides.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::messages::{self, Command, Outcome};
use super::store::Store;
use super::subscriber;
use super::turn_state::TurnState;
use crate::redis::link::{Request, Unreachable};
use crate::turn::human::open::AnswerSource;

/// A command without a reply is sent again after this time. All commands can be repeated safely.
const RESEND_AFTER: Duration = Duration::from_secs(1);

/// The time-out for a reply from the host of a finished turn. That host may still know the answers
/// to the turn's questions; if it runs, it replies at once.
const FINISHED_PATIENCE: Duration = Duration::from_millis(500);

/// Sends a command to the host of a turn and waits for the outcome; `None` if the host does not
/// reply although it should be alive.
pub(super) async fn call(store: &Arc<Store>, mut turn: TurnState, command: Command) -> Option<Outcome> {
    let (number, mut reply) = store.register_call();
    let call = Call { store, number };
    subscriber::ensure_running(store);
    let give_up = Instant::now() + store.options.call_timeout;
    let mut silent_since = None;
    loop {
        let mut pipeline = redis::pipe();
        call.send(&mut pipeline, &turn, &command);
        let sent = timeout_at(give_up, store.link.request::<()>(Request::Commands(&pipeline))).await;
        let (Ok(Ok(())), id) = (sent, turn.id) else {
            return None;
        };
        let patience = if turn.is_finished {
            FINISHED_PATIENCE
        } else {
            RESEND_AFTER
        };
        match timeout_at(give_up.min(Instant::now() + patience), &mut reply).await {
            // The host may have evicted the turn or may be dead, but the turn has ended in any
            // case.
            Ok(Ok(Outcome::UnknownTurn)) | Err(_) if turn.is_finished => return Some(Outcome::Finished),
            Ok(Ok(Outcome::UnknownTurn)) => {
                // The turn is going to be ended when its lease expires.
                reply = store.register_reply(number);
                tokio::time::sleep_until(give_up.min(Instant::now() + RESEND_AFTER)).await;
            }
            Ok(Ok(outcome)) => return Some(outcome),
            Ok(Err(_)) => return None,
            Err(_) => {}
        }
        if Instant::now() >= give_up {
            return None;
        }
        turn = match timeout_at(give_up, store.turn_state(id)).await {
            Ok(Ok(Some(turn))) => turn,
            Ok(Ok(None)) => return Some(Outcome::Finished),
            Ok(Err(Unreachable)) | Err(_) => return None,
        };
        silent_since = match turn.lease {
            None if !turn.is_finished => silent_since.or_else(|| Some(Instant::now())),
            _ => None,
        };
        if silent_since.is_some_and(|since| since.elapsed() >= store.options.lease_grace()) {
            // The next turn state shows whether this or another host has ended the turn. Since the server
            // accepted the command, the turn's own host has had time to renew its lease. If the server
            // refuses this request, it may have refused that renewal too, and the silence counts again
            // from the next command.
            let fenced = timeout_at(give_up, store.fence(&turn)).await.ok()?;
            silent_since = silent_since.filter(|_| fenced.is_ok());
        }
    }
}

/// A call that waits for its reply. Dropping it cancels the wait.
struct Call<'a> {
    store: &'a Store,
    number: u64,
}

impl Call<'_> {
    fn send(&self, pipeline: &mut redis::Pipeline, turn: &TurnState, command: &Command) {
        let (id, number) = (turn.id.to_string(), self.number.to_string());
        let mut fields = vec![
            ("turn", id.as_str()),
            ("from", self.store.process.as_str()),
            ("number", number.as_str()),
        ];
        let json;
        match command {
            Command::Stop => fields.push(("do", "stop")),
            Command::Answer {
                request_id,
                answer,
                by,
            } => {
                json = answer.to_string();
                let action = match by {
                    AnswerSource::Human => "answer",
                    AnswerSource::Program => "authorized",
                };
                fields.extend([("do", action), ("request_id", request_id), ("answer", &json)]);
            }
        }
        messages::send(pipeline, &self.store.options.prefix, &turn.host, &fields);
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.store.lock().calls.remove(&self.number);
    }
}

impl Store {
    fn register_call(&self) -> (u64, oneshot::Receiver<Outcome>) {
        let mut subscriptions = self.lock();
        let number = subscriptions.next_call;
        subscriptions.next_call += 1;
        drop(subscriptions);
        (number, self.register_reply(number))
    }

    fn register_reply(&self, number: u64) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        self.lock().calls.insert(number, sender);
        receiver
    }

    /// Delivers the reply of a host. A second reply to the same call is ignored.
    pub(super) fn deliver(&self, number: u64, outcome: Outcome) {
        let call = self.lock().calls.remove(&number);
        if let Some(call) = call {
            let _ = call.send(outcome);
        }
    }
}
