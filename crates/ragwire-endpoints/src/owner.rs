//! The owner of a request.
//!
//! Endpoints have no login. A function of the request's head names its owner: for example the user
//! in a header that a proxy sets, or in an extension that a middleware adds. Only the owner can
//! read, stop and answer the turns that they started. Without such a function all requests are
//! anonymous, and anyone who knows the 128 random bits of a turn's id has access to the turn.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode};
use ragwire::orchestrator::Headers;

use crate::refusal::Refusal;

/// Longest name. Every turn stores it; a distinguished name of a certificate still fits.
const MAX_BYTES: usize = 1024;

/// The function that determines the owner.
pub(crate) type OwnerOf = Arc<dyn Fn(&Parts) -> Result<Option<String>, Refusal> + Send + Sync>;

/// Returns a function that takes the owner from a header, for
/// [`Endpoints::owner`](crate::Endpoints::owner).
///
/// It refuses a request with 401 if the header is missing, empty, not UTF-8, longer than 1,024
/// bytes, or present twice: with a proxy that only adds its header, the client must not choose.
/// Only use a header that a proxy in front of the server sets.
///
/// ```
/// use http::HeaderName;
/// use ragwire::{Metadata, Question, SendError, Sink};
/// use ragwire_endpoints::{Endpoints, owner_header};
///
/// async fn answer(question: Question, sink: Sink) -> Result<Metadata, SendError> {
///     sink.send(format!("Hello, {}.", question.owner)).await?;
///     Ok(Metadata::default())
/// }
///
/// let app = Endpoints::new(answer)
///     .owner(owner_header(HeaderName::from_static("x-user")))
///     .router();
/// # let _: axum::Router = app;
/// ```
pub fn owner_header(
    header: HeaderName,
) -> impl Fn(&Parts) -> Result<Option<String>, Refusal> + Send + Sync + 'static {
    move |head| match from_headers(&head.headers, &header) {
        Some(owner) => Ok(Some(owner)),
        None => Err(unauthorized(format!(
            "The request needs exactly one valid header {header}."
        ))),
    }
}

fn from_headers(headers: &HeaderMap, header: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(header).iter();
    let name = std::str::from_utf8(values.next()?.as_bytes()).ok()?.trim();
    let is_only = values.next().is_none();
    (is_only && (1..=MAX_BYTES).contains(&name.len())).then(|| name.to_owned())
}

fn unauthorized(message: impl Into<String>) -> Refusal {
    Refusal::permanent(StatusCode::UNAUTHORIZED, "unauthorized", message)
}

/// The owner of a request, anonymous without a function that names owners, and the headers that the
/// orchestrator gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    name: String,
    headers: Headers,
    /// By which the limits per client count.
    client: Option<Arc<str>>,
}

impl Owner {
    /// The owner of requests without a name.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: String::new(),
            headers: Headers::default(),
            client: None,
        }
    }

    /// Returns the name that journals compare; empty if anonymous.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the name, or `None` if anonymous.
    pub(crate) fn name(&self) -> Option<&str> {
        Some(self.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the headers that the orchestrator gets.
    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns the owner with the headers that the orchestrator gets.
    pub(crate) fn with_headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    /// Returns the owner with this name, which must be storable.
    pub(crate) fn named(name: String) -> Result<Self, Refusal> {
        // The sessions of Eve use NUL to keep their names apart.
        if name.len() > MAX_BYTES || name.contains('\0') {
            return Err(unauthorized(format!(
                "The owner's name must have at most {MAX_BYTES} bytes and no NUL."
            )));
        }
        Ok(Self {
            name,
            ..Self::anonymous()
        })
    }

    /// Sets the client by which limits count.
    pub(crate) fn of_client(mut self, client: Option<Arc<str>>) -> Self {
        self.client = client;
        self
    }

    /// Returns the client by which limits count.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    #[cfg(test)]
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ..Self::anonymous()
        }
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
            from_headers(&headers, &header)
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

    #[test]
    fn a_name_is_bounded_and_has_no_nul() {
        assert_eq!(Owner::named("eva".into()).unwrap(), Owner::new("eva"));
        assert_eq!(Owner::named(String::new()).unwrap().name(), None);
        for name in ["eve\0ada".to_owned(), "a".repeat(MAX_BYTES + 1)] {
            assert_eq!(Owner::named(name).unwrap_err().status, StatusCode::UNAUTHORIZED);
        }
    }
}
