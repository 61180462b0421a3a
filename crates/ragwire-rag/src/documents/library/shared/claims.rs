//! Claims of a shared library: a point that its holder writes again and again.
//!
//! No clock of another machine is trusted: a claim has expired if this host has seen no change of it
//! for the lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::claim::Work;
use super::catalogue::Catalogue;
use super::records::{BEAT, HOLDER, Kind};
use super::remote::nonce;
use crate::search::store::StoreError;

/// The holder of a claim that was given up.
const FREE: i64 = 0;
/// A claim is renewed so often within its lease.
const RENEWALS_PER_LEASE: u32 = 3;

impl Work {
    fn key(&self) -> String {
        match self {
            Self::Folders => "folders".to_owned(),
            Self::Document(id) => format!("document {id}"),
            Self::Sweep => "sweep".to_owned(),
        }
    }
}

/// A claim as it was last seen, and since when it has been so.
type Seen = (i64, i64, Instant);

/// The claims of other hosts.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<String, Seen>>);

/// A claim of this host. Its renewal ends with it.
#[derive(Debug)]
pub(in super::super) struct HeldClaim {
    _end: oneshot::Sender<()>,
}

/// What the background does for a claim.
pub(super) struct Renewal {
    catalogue: Arc<Catalogue>,
    key: String,
    holder: i64,
    beat: i64,
    lease: Duration,
    ended: oneshot::Receiver<()>,
}

impl Claims {
    pub(super) async fn take(
        &self,
        catalogue: Arc<Catalogue>,
        work: &Work,
        lease: Duration,
    ) -> Result<Option<(HeldClaim, Renewal)>, StoreError> {
        let key = work.key();
        let found = catalogue.remote.record(Kind::Claim, &key).await?;
        let (holder, beat) = found.as_ref().map_or((-1, 0), read);
        if found.is_some() && holder != FREE && !self.has_expired(&key, holder, beat, lease) {
            return Ok(None);
        }
        let me = nonce()?.max(FREE + 1);
        let expected: &[_] = match found {
            Some(_) => &[(HOLDER, holder), (BEAT, beat)],
            None => &[(HOLDER, holder)],
        };
        let remote = &catalogue.remote;
        remote
            .put_if(Kind::Claim, &key, fields(me, beat + 1), expected)
            .await?;
        let now = remote.record(Kind::Claim, &key).await?;
        if now.as_ref().map(read) != Some((me, beat + 1)) {
            return Ok(None);
        }
        let (end, ended) = oneshot::channel();
        let renewal = Renewal {
            catalogue: Arc::clone(&catalogue),
            key,
            holder: me,
            beat: beat + 1,
            lease,
            ended,
        };
        Ok(Some((HeldClaim { _end: end }, renewal)))
    }

    fn has_expired(&self, key: &str, holder: i64, beat: i64, lease: Duration) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        seen.retain(|_, (_, _, since)| now.duration_since(*since) <= 2 * lease);
        let known = seen.entry(key.to_owned()).or_insert((holder, beat, now));
        if (known.0, known.1) != (holder, beat) {
            *known = (holder, beat, now);
        }
        now.duration_since(known.2) >= lease
    }
}

impl Renewal {
    /// Renews the claim until it is dropped, then gives it up.
    pub(super) async fn run(mut self) {
        loop {
            let next = tokio::time::sleep(self.lease / RENEWALS_PER_LEASE);
            tokio::select! {
                () = next => self.write(self.holder).await,
                _ = &mut self.ended => return self.write(FREE).await,
            }
        }
    }

    async fn write(&mut self, holder: i64) {
        let expected = [(HOLDER, self.holder), (BEAT, self.beat)];
        let fields = fields(holder, self.beat + 1);
        let written = self
            .catalogue
            .remote
            .put_if(Kind::Claim, &self.key, fields, &expected)
            .await;
        match written {
            Ok(()) => self.beat += 1,
            // It expires, unless the next renewal is in time.
            Err(error) => tracing::warn!(claim = self.key, %error, "a claim was not renewed"),
        }
    }
}

fn fields(holder: i64, beat: i64) -> Map<String, Json> {
    let fields = json!({ HOLDER: holder, BEAT: beat });
    fields.as_object().cloned().unwrap_or_default()
}

fn read(record: &Map<String, Json>) -> (i64, i64) {
    let number = |name| record.get(name).and_then(Json::as_i64).unwrap_or(0);
    (number(HOLDER), number(BEAT))
}
