//! Who asks, where something in front of the server knows that.
//!
//! The server has no login. Started with `--owner-header NAME` it believes the header that a trusted proxy in front of it sets: that
//! principal owns the turns it begins, and nobody else reads, stops or answers them. Without the flag nobody is named, and whoever
//! has the 128 random bits of a turn's id has the turn.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode};

use super::refusal::Refusal;
use crate::app::App;

/// Longest name. It is kept with each turn; a distinguished name of a certificate still fits.
const MAX_BYTES: usize = 1024;

/// The principal of a request; nobody where the server is told of none.
///
/// As an argument of a handler it is refused with 401 where the header is missing, empty, no UTF-8, too long or there twice: a proxy that
/// adds its header to one that the client sent must not let the client choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner(String);

impl Owner {
    /// Of turns that nobody can be told of.
    pub(super) fn nobody() -> Self {
        Self(String::new())
    }

    /// The name, as journals compare it; empty for nobody.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, if there is one.
    pub(super) fn name(&self) -> Option<&str> {
        Some(self.as_str()).filter(|name| !name.is_empty())
    }

    fn of(headers: &HeaderMap, header: &HeaderName) -> Option<Self> {
        let mut values = headers.get_all(header).iter();
        let name = std::str::from_utf8(values.next()?.as_bytes()).ok()?.trim();
        let is_one = values.next().is_none();
        (is_one && (1..=MAX_BYTES).contains(&name.len())).then(|| Self(name.to_owned()))
    }
}

impl FromRequestParts<Arc<App>> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        match &*app.settings.owner_header {
            None => Ok(Self(String::new())),
            Some(header) => Self::of(&parts.headers, header).ok_or_else(|| {
                Refusal::permanent(
                    StatusCode::UNAUTHORIZED,
                    "unauthorized",
                    "The request does not say whose it is.",
                )
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_header_names_one_principal() {
        let header = HeaderName::from_static("x-user");
        let of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(&header, http::HeaderValue::from_bytes(value).unwrap());
            }
            Owner::of(&headers, &header).map(|owner| owner.0)
        };
        let long = vec![b'a'; MAX_BYTES + 1];
        assert_eq!(of(&[b" alice "]).as_deref(), Some("alice"));
        assert_eq!(of(&["\u{e9}va".as_bytes()]).as_deref(), Some("\u{e9}va"));
        assert_eq!(of(&[&long[1..]]), Some("a".repeat(MAX_BYTES)));
        let none: [&[&[u8]]; 7] = [
            &[],
            &[b""],
            &[b" \t"],
            &[b"a", b"b"],
            &[b"a", b"a"],
            &[b"\xff"],
            &[&long],
        ];
        for values in none {
            assert_eq!(of(values), None);
        }
    }
}
