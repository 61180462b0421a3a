//! The handle of a session store: reads a session, changes it, and writes it by compare-and-swap.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backend::{Backend, Stored};
use super::key::{self, Key};
use super::{Role, Session, SessionError, SessionLimits};

/// How often a change is applied again because other changes came first. Each of those succeeded,
/// so running out of attempts takes as many concurrent changes to one session.
const MAX_ATTEMPTS: usize = 256;

/// A store of conversations. Clones share the store.
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
/// If the future of a change is dropped, the change is made completely or not at all.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

struct Shared {
    limits: SessionLimits,
    backend: Box<dyn Backend>,
    out_of_space: AtomicBool,
}

impl Sessions {
    pub(super) fn new(limits: SessionLimits, backend: impl Backend + 'static) -> Self {
        let backend = Box::new(backend);
        Self {
            shared: Arc::new(Shared {
                limits,
                backend,
                out_of_space: AtomicBool::new(false),
            }),
        }
    }

    /// Returns whether `id` can name a session: 1 to 128 bytes, each an ASCII letter, a digit, `-`,
    /// `_` or `.`, and not only dots.
    pub fn is_id(id: &str) -> bool {
        key::is_id(id)
    }

    /// Generates 128 random bits as 32 hexadecimal digits: an ID, or a secret of your own.
    ///
    /// # Errors
    ///
    /// [`SessionError::Random`], since a guessable value must not grant access.
    pub fn random_id() -> Result<String, SessionError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(SessionError::Random)?;
        Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
    }

    /// Returns `true` if the last change failed because the disk is full. The next change tries again.
    pub fn is_out_of_space(&self) -> bool {
        self.shared.out_of_space.load(Ordering::Relaxed)
    }

    async fn swap(&self, key: &Key, from: Option<u64>, bytes: Vec<u8>) -> Result<Option<u64>, SessionError> {
        let swapped = self.shared.backend.swap(key, from, bytes).await;
        let out_of_space = matches!(swapped, Err(SessionError::NoSpace));
        self.shared.out_of_space.store(out_of_space, Ordering::Relaxed);
        swapped
    }

    /// Returns the limits of this store.
    pub fn limits(&self) -> &SessionLimits {
        &self.shared.limits
    }

    /// Begins a session under a [random ID](Self::random_id). A title of more than
    /// [`MAX_TITLE_CHARS`](super::MAX_TITLE_CHARS) characters is cut.
    ///
    /// # Errors
    ///
    /// [`SessionError::Random`], [`SessionError::BadOwner`], and those of the store.
    pub async fn begin(&self, owner: &str, title: Option<String>) -> Result<Session, SessionError> {
        let id = Self::random_id()?;
        self.begin_with(owner, &id, |session| session.title.clone_from(&title))
            .await
    }

    /// Returns the owner's session with this ID, and begins it if it does not exist.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadId`], [`SessionError::BadOwner`], and those of the store.
    pub async fn get_or_begin(&self, owner: &str, id: &str) -> Result<Session, SessionError> {
        self.begin_with(owner, id, |_| ()).await
    }

    /// Returns the owner's session with this ID. If it does not exist, begins it with the content
    /// that `prepare` gives it; no reader sees it before.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadId`], [`SessionError::BadOwner`], [`SessionError::StateTooLarge`], and
    /// those of the store.
    pub async fn begin_with(
        &self,
        owner: &str,
        id: &str,
        mut prepare: impl FnMut(&mut Session),
    ) -> Result<Session, SessionError> {
        let key = Key::new(owner, id)?;
        for _ in 0..MAX_ATTEMPTS {
            if let Some(Stored { stamp, bytes }) = self.shared.backend.load(&key).await? {
                return Session::read(id, stamp, &bytes);
            }
            let mut session = Session::new(id);
            prepare(&mut session);
            let bytes = session.write(self.limits())?;
            if let Some(stamp) = self.swap(&key, None, bytes.clone()).await? {
                return Session::read(id, stamp, &bytes);
            }
        }
        Err(SessionError::Contended)
    }

    /// Returns a session in its current state. Reads do not extend its lifetime; otherwise every
    /// read would be a write.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unknown`], also for an invalid ID or owner, and those of the store.
    pub async fn get(&self, owner: &str, id: &str) -> Result<Session, SessionError> {
        let key = Key::new(owner, id).map_err(|_| SessionError::Unknown)?;
        match self.shared.backend.load(&key).await? {
            Some(stored) => Session::read(id, stored.stamp, &stored.bytes),
            None => Err(SessionError::Unknown),
        }
    }

    /// Returns the sessions of an owner, the one changed last first, at most `limit`.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn list(&self, owner: &str, limit: usize) -> Result<Vec<Session>, SessionError> {
        let listed = self.shared.backend.list(owner, limit).await?;
        let read = |(id, stored): (String, Stored)| Session::read(&id, stored.stamp, &stored.bytes);
        listed.into_iter().map(read).collect()
    }

    /// Appends a message and returns the session with it.
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
                session.push(role, text);
                Ok::<_, SessionError>(())
            })
            .await?;
        Ok(session)
    }

    /// Reads a session, changes it and writes it as one atomic step, across all hosts. Returns the
    /// new state, shortened to its limits, and the value that `change` returned.
    ///
    /// If another change came first, `change` is called again with the state that it left. If
    /// `change` returns an error, the session stays as it was.
    ///
    /// # Errors
    ///
    /// The error of `change`, [`SessionError::Unknown`], [`SessionError::StateTooLarge`],
    /// [`SessionError::Contended`], and those of the store.
    pub async fn update<T, E>(
        &self,
        owner: &str,
        id: &str,
        mut change: impl FnMut(&mut Session) -> Result<T, E>,
    ) -> Result<(Session, T), E>
    where
        E: From<SessionError>,
    {
        let key = Key::new(owner, id).map_err(|_| SessionError::Unknown)?;
        for _ in 0..MAX_ATTEMPTS {
            let Some(Stored { stamp, bytes }) = self.shared.backend.load(&key).await? else {
                return Err(SessionError::Unknown.into());
            };
            let mut session = Session::read(id, stamp, &bytes)?;
            let value = change(&mut session)?;
            let bytes = session.write(self.limits())?;
            if let Some(stamp) = self.swap(&key, Some(stamp), bytes.clone()).await? {
                return Ok((Session::read(id, stamp, &bytes)?, value));
            }
        }
        Err(SessionError::Contended.into())
    }

    /// Deletes a session. Returns false if the owner has no such session.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn delete(&self, owner: &str, id: &str) -> Result<bool, SessionError> {
        match Key::new(owner, id) {
            Ok(key) => self.shared.backend.remove(&key).await,
            Err(_) => Ok(false),
        }
    }

    /// Drops the expired sessions and returns how many are left.
    ///
    /// An expired session is never returned, and each change drops a few of them. Call this every
    /// minute or so where messages have to be erased on time even if no session changes any more.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn sweep(&self) -> Result<usize, SessionError> {
        self.shared.backend.sweep().await
    }
}

impl fmt::Debug for Sessions {
    /// Without the sessions: questions and answers do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("store", &self.shared.backend.name())
            .field("limits", &self.shared.limits)
            .finish_non_exhaustive()
    }
}
