//! Sessions: what is remembered of conversations, from turn to turn.
//!
//! ```text
//!  Sessions ──► record.rs ──► store.rs ──► memory.rs   this process
//!  here         one session   bytes under  file.rs     one file, survives a restart   (feature `redb`)
//!               as bytes      owner + id   redis.rs    a server, for several hosts    (feature `redis`)
//! ```
//!
//! A session belongs to its owner: what your authentication calls the user, or `""` where nobody is told from anybody. Its key is the
//! owner *and* its id, so somebody else's is simply not there, like one that never was, or one that is kept no longer: the same
//! error, and no work more for one of them than for another. Ids that are given here have 128 random bits; a name that a client
//! chooses is one within its owner's own space.
//!
//! Every change is a compare-and-set: of two hosts that change a session at the same time one finds the other's change there and makes
//! its own again on top of it. Everything is bounded: sessions, messages, bytes and age; the oldest go first.
//!
//! It deliberately knows no turn, no journal and no http: what a session is asked, and by whom, is its caller's business.

mod error;
#[cfg(feature = "redb")]
mod file;
mod limits;
mod memory;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod store;

use std::fmt;
#[cfg(feature = "redb")]
use std::path::Path;
use std::sync::Arc;

pub use error::SessionError;
pub use limits::SessionLimits;
pub use record::{MAX_TITLE_BYTES, Message, Role, Session};

use self::memory::Memory;
use self::store::{Clock, Key, Store};

/// Longest session id.
pub const MAX_ID_BYTES: usize = 128;
/// Longest name of an owner: more than any subject of a token.
pub const MAX_OWNER_BYTES: usize = 1024;
/// How often a change is made again because others came first. Each time one of them got through, so it takes as many at once.
const MAX_ATTEMPTS: usize = 256;

/// Conversations, remembered from turn to turn. Clones are the same store.
///
/// ```
/// # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use ragwire::session::{Role, SessionLimits, Sessions};
///
/// let sessions = Sessions::in_memory(SessionLimits::default());
/// let session = sessions.begin("alice", None).await?;
/// sessions.append("alice", session.id(), Role::User, "What is the commit rule?").await?;
///
/// let session = sessions.get("alice", session.id()).await?;
/// assert_eq!(session.messages[0].text, "What is the commit rule?");
/// assert_eq!(session.title.as_deref(), Some("What is the commit rule?"));
/// assert_eq!(sessions.get("mallory", session.id()).await.unwrap_err().code(), "unknown_session");
/// # Ok(()) }
/// ```
///
/// # Cancel safety
///
/// Dropping a future that changes something may or may not have changed it, never half of it.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

struct Shared {
    limits: SessionLimits,
    store: Store,
}

impl Sessions {
    /// Sessions in the memory of this process.
    pub fn in_memory(limits: SessionLimits) -> Self {
        Self::memory_with(limits, Clock::default())
    }

    fn memory_with(limits: SessionLimits, clock: Clock) -> Self {
        Self::with(limits, Store::Memory(Memory::new(limits, clock)))
    }

    /// Sessions in the file `path`, which is made where there is none. Each change is on the disk before it returns; dropping the last
    /// clone closes the file, and there is nothing to flush. The whole file is checked first, which takes longer the
    /// larger it is.
    ///
    /// # Errors
    ///
    /// [`SessionError::InUse`], [`SessionError::Version`], [`SessionError::Damaged`], [`SessionError::Storage`].
    #[cfg(feature = "redb")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
    pub async fn open(path: impl AsRef<Path>, limits: SessionLimits) -> Result<Self, SessionError> {
        Self::open_with(path.as_ref(), limits, Clock::default()).await
    }

    #[cfg(feature = "redb")]
    async fn open_with(path: &Path, limits: SessionLimits, clock: Clock) -> Result<Self, SessionError> {
        let file = Store::open_file(path.to_owned(), limits, clock).await?;
        Ok(Self::with(limits, file))
    }

    /// Sessions on a Redis server, the same ones for all hosts that open them with the same server, prefix and limits. What is checked of
    /// the server, and how long it is waited for, is as for [`Journal::redis`](crate::turn::Journal::redis).
    ///
    /// # Errors
    ///
    /// [`SessionError::Redis`], where the server does not answer or should not be trusted with sessions.
    #[cfg(feature = "redis")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
    pub async fn redis(
        options: &crate::turn::RedisOptions,
        limits: SessionLimits,
    ) -> Result<Self, SessionError> {
        Self::redis_with(options, limits, Clock::default()).await
    }

    #[cfg(feature = "redis")]
    async fn redis_with(
        options: &crate::turn::RedisOptions,
        limits: SessionLimits,
        clock: Clock,
    ) -> Result<Self, SessionError> {
        let redis = redis::Redis::open(options, limits, clock).await?;
        Ok(Self::with(limits, Store::Redis(Box::new(redis))))
    }

    fn with(limits: SessionLimits, store: Store) -> Self {
        Self {
            shared: Arc::new(Shared { limits, store }),
        }
    }

    /// Whether `id` may name a session: 1 to 128 letters, digits, `-`, `_` and `.` of ASCII, not only dots.
    pub fn is_id(id: &str) -> bool {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=MAX_ID_BYTES).contains(&id.len()) && id.bytes().all(safe) && !id.bytes().all(|byte| byte == b'.')
    }

    /// 128 bits from the system as 32 hexadecimal digits: an id, or a secret of your own.
    ///
    /// # Errors
    ///
    /// [`SessionError::Random`]: what could be guessed must not give access.
    pub fn random_id() -> Result<String, SessionError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(SessionError::Random)?;
        Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
    }

    /// How much is kept.
    pub fn limits(&self) -> &SessionLimits {
        &self.shared.limits
    }

    /// Begins a session under a [random id](Self::random_id). A title of more than [`MAX_TITLE_BYTES`] is cut.
    ///
    /// # Errors
    ///
    /// [`SessionError::Random`], [`SessionError::BadOwner`], and those of the store.
    pub async fn begin(&self, owner: &str, title: Option<String>) -> Result<Session, SessionError> {
        let id = Self::random_id()?;
        self.begin_with(owner, &id, |session| session.title.clone_from(&title))
            .await
    }

    /// The session of that name in its owner's own space; it is begun where there is none.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadId`], [`SessionError::BadOwner`], and those of the store.
    pub async fn get_or_begin(&self, owner: &str, id: &str) -> Result<Session, SessionError> {
        self.begin_with(owner, id, |_| ()).await
    }

    /// The session of that name in its owner's own space; where there is none it is begun, and `prepare` says what stands in it before
    /// anybody else can find it.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadId`], [`SessionError::BadOwner`], [`SessionError::StateTooLarge`], and those of the store.
    pub async fn begin_with(
        &self,
        owner: &str,
        id: &str,
        mut prepare: impl FnMut(&mut Session),
    ) -> Result<Session, SessionError> {
        let key = key(owner, id)?;
        for _ in 0..MAX_ATTEMPTS {
            if let Some((stamp, bytes)) = self.shared.store.load(&key).await? {
                return Session::read(id, stamp, &bytes);
            }
            let mut session = Session::new(id);
            prepare(&mut session);
            let bytes = session.write(self.limits())?;
            if let Some(stamp) = self.shared.store.swap(&key, None, bytes.clone()).await? {
                return Session::read(id, stamp, &bytes);
            }
        }
        Err(SessionError::Contended)
    }

    /// The session as it stands.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`], also for an id or an owner that cannot be; and those of the store.
    pub async fn get(&self, owner: &str, id: &str) -> Result<Session, SessionError> {
        let key = key(owner, id).map_err(|_| SessionError::Unknown)?;
        match self.shared.store.load(&key).await? {
            Some((stamp, bytes)) => Session::read(id, stamp, &bytes),
            None => Err(SessionError::Unknown),
        }
    }

    /// Remembers what was said, after everything before it, and gives the session as it stands then.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`], [`SessionError::Contended`], and those of the store.
    pub async fn append(
        &self,
        owner: &str,
        id: &str,
        role: Role,
        text: &str,
    ) -> Result<Session, SessionError> {
        let (session, ()) = self
            .update(owner, id, |session| {
                session.say(role, text);
                Ok::<_, SessionError>(())
            })
            .await?;
        Ok(session)
    }

    /// Reads a session, changes it and writes it, as one step: nobody else's change comes in between, on this host or another. Gives the
    /// session as it stands then, shortened to its limits, and what `change` gave.
    ///
    /// Where somebody else was faster, `change` is called again with the session as that one left it. An error of `change` leaves the
    /// session as it was.
    ///
    /// # Errors
    ///
    /// What `change` gives, and [`SessionError::Unknown`], [`SessionError::StateTooLarge`], [`SessionError::Contended`], and those of the
    /// store.
    pub async fn update<T, E>(
        &self,
        owner: &str,
        id: &str,
        mut change: impl FnMut(&mut Session) -> Result<T, E>,
    ) -> Result<(Session, T), E>
    where
        E: From<SessionError>,
    {
        let key = key(owner, id).map_err(|_| SessionError::Unknown)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some((stamp, bytes)) = self.shared.store.load(&key).await? else {
                return Err(SessionError::Unknown.into());
            };
            let mut session = Session::read(id, stamp, &bytes)?;
            let given = change(&mut session)?;
            let bytes = session.write(self.limits())?;
            if let Some(stamp) = self.shared.store.swap(&key, Some(stamp), bytes.clone()).await? {
                return Ok((Session::read(id, stamp, &bytes)?, given));
            }
        }
        Err(SessionError::Contended.into())
    }

    /// Forgets a session; false where there was none.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn forget(&self, owner: &str, id: &str) -> Result<bool, SessionError> {
        match key(owner, id) {
            Ok(key) => self.shared.store.remove(&key).await,
            Err(_) => Ok(false),
        }
    }

    /// Drops the sessions that are too old, and says how many are left. Nobody sees an old one in any case, and each change drops some; this
    /// is for a store that is not written to any more, whose owners' words should go all the same: call it every minute or so.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn sweep(&self) -> Result<usize, SessionError> {
        self.shared.store.sweep().await
    }
}

impl fmt::Debug for Sessions {
    /// Without the sessions: what people ask and are told does not belong into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("store", &self.shared.store.name())
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}

fn key(owner: &str, id: &str) -> Result<Key, SessionError> {
    if owner.len() > MAX_OWNER_BYTES {
        return Err(SessionError::BadOwner);
    }
    if !Sessions::is_id(id) {
        return Err(SessionError::BadId);
    }
    Ok(Key {
        owner: owner.into(),
        id: id.into(),
    })
}

#[cfg(test)]
mod tests;
