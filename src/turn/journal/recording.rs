//! A turn that is to be journaled, from its reservation to the start of its response.

use std::sync::Arc;

use super::Disconnect;
use super::cursor::Cursor;
use super::entries::LogEntries;
use super::log::Head;
use super::recorder::{Recorder, take_ready};
use super::registry::Registry;
use super::server::{Opening, Store};
use crate::turn::admission::busy;
use crate::turn::admission::group::{Membership, RETRY_AFTER};
use crate::turn::reader::Reader;
use crate::turn::spawn::spawn;
use crate::turn::{Rejected, Turn, TurnId};

/// A reserved slot for a turn whose response has not begun. Dropping it gives the slot back.
#[derive(Debug)]
pub(in crate::turn) struct Slot {
    registry: Arc<Registry>,
    store: Option<Arc<Store>>,
}

impl Slot {
    /// Reserves a slot before any work is done for the turn. A full journal rejects it as busy.
    pub(super) fn reserve(
        registry: &Arc<Registry>,
        store: Option<&Arc<Store>>,
        id: TurnId,
    ) -> Result<Self, Rejected> {
        if registry.reserve(id) {
            Ok(Self {
                registry: Arc::clone(registry),
                store: store.map(Arc::clone),
            })
        } else {
            Err(Rejected {
                retry_after: Some(RETRY_AFTER),
                ..Rejected::new(busy())
            })
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.registry.release();
    }
}

/// The properties of a journaled turn before its response begins.
#[derive(Debug)]
pub(in crate::turn) struct Recording {
    pub(in crate::turn) slot: Slot,
    pub(in crate::turn) owner: String,
    pub(in crate::turn) lane: Option<String>,
    pub(in crate::turn) disconnect: Disconnect,
}

impl Recording {
    /// Starts to record a turn whose response begins. The first reader of the log replaces
    /// `reader`, which becomes the recorder's. Rejects the turn if the journal's server does not
    /// accept it.
    pub(in crate::turn) async fn begin(self: Box<Self>, mut reader: Box<Reader>) -> Result<Turn, Rejected> {
        let Self {
            slot,
            owner,
            lane,
            disconnect,
        } = *self;
        let registry = Arc::clone(&slot.registry);
        let id = reader.id;
        let mut writer = None;
        if let Some(store) = &slot.store {
            let opening = Opening {
                id,
                owner: &owner,
                lane: lane.as_deref(),
                keep_alive: reader.timeouts.keep_alive,
            };
            match store.begin(opening).await {
                Ok(begun) => writer = Some(begun),
                Err(failure) => {
                    reader.rejected = Some(Box::new(failure.clone()));
                    return Err(Rejected {
                        id,
                        failure,
                        retry_after: Some(RETRY_AFTER),
                    });
                }
            }
        }
        let head = Head {
            handle: reader.handle(),
            conversation: lane.map(|lane| (lane, owner.clone())),
            owner,
            timeouts: reader.timeouts,
            membership: reader.membership.as_ref().map(Membership::downgrade),
            _source: None,
        };
        let log = Arc::new(registry.new_log(head, LogEntries::default()));
        let first = Cursor::first(&log, reader.observation.clone());
        registry.insert(id, Arc::clone(&log));
        drop(slot);
        // Frames reach a server before any reader.
        if writer.is_none() {
            take_ready(&reader, &registry, &log);
        }
        let span = reader.span.clone();
        span.record("wire", "journal");
        let recorder = Recorder {
            reader,
            registry,
            log,
            writer,
            disconnect,
        };
        spawn(recorder.run(), span);
        Ok(Turn::follow(first))
    }
}
