//! The owner of a request, if a proxy in front of the server names one.
//!
//! The server has no login. With `--owner-header NAME` it trusts the header that a proxy sets: only
//! the user named there can read, stop and answer the turns that they started. Without the flag all
//! requests are anonymous, and anyone who knows the 128 random bits of a turn's id has access to
//! the turn.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode};

use super::refusal::Refusal;
use crate::app::App;

/// Longest name. Every turn stores it; a distinguished name of a certificate still fits.
const MAX_BYTES: usize = 1024;

/// The owner of a request; anonymous without `--owner-header`.
///
/// As an argument of a handler it refuses a request with 401 if the header is missing, empty, not
/// UTF-8, too long, or present twice: with a proxy that only adds its header, the client must not
/// choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner(String);

impl Owner {
    /// The owner of requests without a name.
    pub(super) fn anonymous() -> Self {
        Self(String::new())
    }

    /// Returns the name that journals compare; empty if anonymous.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name, or `None` if anonymous.
    pub(super) fn name(&self) -> Option<&str> {
        Some(self.as_str()).filter(|name| !name.is_empty())
    }

    #[cfg(test)]
    pub(super) fn new(name: &str) -> Self {
        Self(name.to_owned())
    }

    fn from_headers(headers: &HeaderMap, header: &HeaderName) -> Option<Self> {
        let mut values = headers.get_all(header).iter();
        let name = std::str::from_utf8(values.next()?.as_bytes()).ok()?.trim();
        let is_only = values.next().is_none();
        (is_only && (1..=MAX_BYTES).contains(&name.len())).then(|| Self(name.to_owned()))
    }
}

impl FromRequestParts<Arc<App>> for Owner {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        let Some(header) = app.settings.owner_header.as_ref() else {
            return Ok(Self::anonymous());
        };
        Self::from_headers(&parts.headers, header).ok_or_else(|| {
            Refusal::permanent(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                format!("The request needs exactly one valid header {header}."),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_header_names_one_owner() {
        let header = HeaderName::from_static("x-user");
        let of = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(&header, http::HeaderValue::from_bytes(value).unwrap());
            }
            Owner::from_headers(&headers, &header).map(|owner| owner.0)
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
