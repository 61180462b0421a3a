//! The client of a request, by which limits per client count.
//!
//! A client is an owner or, without owners, a peer. It grants no access: it only limits how much of the
//! server one client uses.

use std::fmt;
use std::sync::Arc;

use http::Extensions;

use crate::owner::Owner;

/// The peer of a connection, which distinguishes clients without an owner: usually an address.
///
/// A server adds it to the extensions of each request. Without it, and without an
/// [owner](crate::Endpoints::owner), no limit per client applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer(Arc<str>);

impl Peer {
    /// Creates the peer with this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of the client, in the extensions of a request whose owner was determined.
#[derive(Clone, Debug)]
struct ClientName(Arc<str>);

/// Stores the client of a request in its extensions: the owner if it has a name, otherwise the peer.
pub(crate) fn identify(extensions: &mut Extensions, owner: &Owner) -> Option<Arc<str>> {
    if let Some(name) = owner.name() {
        // Peers have no such prefix.
        extensions.insert(ClientName(format!("owner/{name}").into()));
    }
    of(extensions)
}

/// Returns the client of a request.
pub(crate) fn of(extensions: &Extensions) -> Option<Arc<str>> {
    if let Some(ClientName(name)) = extensions.get() {
        return Some(Arc::clone(name));
    }
    extensions.get::<Peer>().map(|peer| Arc::clone(&peer.0))
}

/// The share of a limited resource that one client may use, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientShare(u8);

impl ClientShare {
    /// A client may use everything.
    pub const ALL: Self = Self(100);

    /// Creates a share from 1 to 100 percent; other numbers become the nearest of them.
    pub const fn percent(percent: u8) -> Self {
        match percent {
            0 => Self(1),
            1..=100 => Self(percent),
            101.. => Self::ALL,
        }
    }

    /// Returns the share of `whole`, at least 1 if there is any.
    pub fn of(self, whole: usize) -> usize {
        let share = whole as u128 * u128::from(self.0) / 100;
        // At most `whole`.
        (share as usize).max(whole.min(1))
    }
}

impl fmt::Display for ClientShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_the_client_whatever_the_peer() {
        let mut extensions = Extensions::new();
        assert_eq!(identify(&mut extensions, &Owner::anonymous()), None);
        extensions.insert(Peer::new("192.0.2.1"));
        let client = identify(&mut extensions, &Owner::anonymous());
        assert_eq!(client.as_deref(), Some("192.0.2.1"));
        assert_eq!(
            identify(&mut extensions, &Owner::new("ada")).as_deref(),
            Some("owner/ada")
        );
        assert_eq!(of(&extensions).as_deref(), Some("owner/ada"));
    }

    #[test]
    fn a_share_is_never_nothing_of_something() {
        for (percent, whole, share) in [
            (50, 64, 32),
            (50, 1, 1),
            (50, 0, 0),
            (1, 10, 1),
            (100, usize::MAX, usize::MAX),
            (0, 200, 2),
            (255, 7, 7),
        ] {
            assert_eq!(
                ClientShare::percent(percent).of(whole),
                share,
                "{percent} % of {whole}"
            );
        }
    }
}
