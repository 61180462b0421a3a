//! The state of a turn on the server, and the requests for it.

use std::time::Duration;

use redis::{RedisResult, Script};

use super::keys::{self, PRODUCER, millis};
use super::store::Store;
use crate::frame::{End, Frame};
use crate::redis::link::{Request, Unreachable};
use crate::turn::TurnId;
use crate::turn::journal::error::interrupted;
use crate::turn::journal::record::Record;

/// The maximum number of stream entries that are read at once.
pub(super) const MAX_ENTRIES: usize = 128;

/// An entry of a stream: its ID, and its fields with their values.
pub(super) type Entry = (String, Vec<(String, Vec<u8>)>);

/// The state of a turn on the server at one moment.
#[derive(Clone, Debug)]
pub(super) struct TurnState {
    pub(super) id: TurnId,
    pub(super) owner: String,
    /// The process that runs the turn, which names its inbox.
    pub(super) host: String,
    pub(super) keep_alive: Option<Duration>,
    pub(super) epoch: u64,
    pub(super) next: u64,
    pub(super) base: u64,
    pub(super) is_finished: bool,
    /// The remaining time of the host's lease; `None` without a lease.
    pub(super) lease: Option<Duration>,
    /// Whether no frame is missing from the stream.
    pub(super) is_complete: bool,
    /// The snapshot of the frames before `base`, as a line; empty without a snapshot.
    pub(super) snapshot: String,
}

impl TurnState {
    fn parse(id: TurnId, reply: &[Option<String>]) -> Option<Self> {
        let text = |at: usize| reply.get(at)?.as_deref();
        let number = |at: usize| text(at)?.parse::<u64>().ok();
        let (base, is_finished, next) = (number(4)?, text(5)? == "1", number(6)?);
        Some(Self {
            id,
            owner: text(0)?.to_owned(),
            host: text(1)?.to_owned(),
            keep_alive: number(2).filter(|ms| *ms > 0).map(Duration::from_millis),
            epoch: number(3)?,
            next,
            base,
            is_finished,
            lease: number(7).map(Duration::from_millis),
            is_complete: number(8)? == next.saturating_sub(base),
            snapshot: text(9).unwrap_or_default().to_owned(),
        })
    }
}

impl Store {
    /// Returns the state of a turn; `None` if the server does not have it.
    pub(super) async fn turn_state(&self, id: TurnId) -> Result<Option<TurnState>, Unreachable> {
        let keys = self.keys(id);
        let script: &Script = &keys::TURN_STATE;
        let mut script = script.prepare_invoke();
        script.key(&keys.turn).key(&keys.frames).key(&keys.lease);
        let reply: Vec<Option<String>> = self.link.request(Request::Script(&script)).await?;
        Ok(TurnState::parse(id, &reply))
    }

    /// Ends a turn whose host has died, unless another host has ended it or its lease is back. It is sent
    /// once: when a server accepts writes again, the turn's own host has to be first.
    pub(super) async fn fence(&self, turn: &TurnState) -> RedisResult<()> {
        let keys = self.keys(turn.id);
        let end = Record::frame(Frame::End(End::failed(interrupted())));
        let script: &Script = &keys::FENCE;
        let mut script = script.prepare_invoke();
        script
            .key(&keys.turn)
            .key(&keys.frames)
            .key(&keys.lease)
            .arg(turn.epoch)
            .arg(turn.next)
            .arg(&end.to_line(turn.next)[..])
            .arg(millis(self.running_ttl()));
        let fenced: u64 = self.link.request_once(Request::Script(&script)).await?;
        if fenced == 1 {
            tracing::warn!(id = %turn.id.short(), "the host of a turn has died");
        }
        Ok(())
    }

    /// Reads the entries of a turn from the frame with index `next` on.
    pub(super) async fn entries(&self, id: TurnId, next: u64) -> Result<Vec<Entry>, Unreachable> {
        let mut range = redis::pipe();
        range
            .cmd("XRANGE")
            .arg(self.keys(id).frames)
            .arg(keys::entry_id(PRODUCER, next))
            .arg("+")
            .arg("COUNT")
            .arg(MAX_ENTRIES);
        let (entries,): (Vec<Entry>,) = self.link.request(Request::Commands(&range)).await?;
        Ok(entries)
    }
}
