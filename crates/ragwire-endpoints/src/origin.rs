//! Which web pages may use a route.
//!
//! A browser sends requests of any page to any server that its user can reach. It names the page in
//! `Origin`; other programs send none. A comparison of `Origin` with `Host` alone does not help: an
//! attacker can point a name of their own at the server (DNS rebinding), and then both have that
//! name. An address cannot be rebound, and neither can `localhost`.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Request, StatusCode};

use crate::refusal::Refusal;

/// The pages that may use a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origins {
    any: bool,
    allowed: Vec<String>,
    hosts: Vec<String>,
}

impl Origins {
    /// Allows every page.
    pub(crate) fn allow_any(&mut self) {
        self.any = true;
    }

    /// Allows the pages of an origin.
    pub(crate) fn allow(&mut self, origin: String) {
        self.allowed.push(origin);
    }

    /// Declares a name of this server, whose own pages are allowed.
    pub(crate) fn allow_host(&mut self, host: String) {
        self.hosts.push(host);
    }

    /// Returns the allowed origins; `None` if every page is allowed.
    pub(crate) fn allowed(&self) -> Option<&[String]> {
        (!self.any).then_some(&*self.allowed)
    }

    /// Refuses a request of a page that is not allowed.
    ///
    /// # Errors
    ///
    /// 403.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        if self.any || self.accepts(request.headers(), request.uri().authority()) {
            return Ok(());
        }
        Err(Refusal::permanent(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "Pages of this origin may not use this route.",
        ))
    }

    /// `authority` is that of the request's target, which HTTP/2 has in place of `Host`.
    fn accepts(&self, headers: &HeaderMap, authority: Option<&Authority>) -> bool {
        let host = authority
            .map(Authority::as_str)
            .or_else(|| text(headers.get(HOST)?));
        headers.get_all(ORIGIN).iter().all(|origin| {
            let Some(origin) = text(origin) else {
                return false;
            };
            let is_own = origin
                .split_once("://")
                .zip(host)
                .is_some_and(|((_, page), host)| page.eq_ignore_ascii_case(host) && self.is_own(host));
            is_own
                || self
                    .allowed
                    .iter()
                    .any(|allowed| allowed.eq_ignore_ascii_case(origin))
        })
    }

    /// Returns `true` for an authority that only this server can have.
    fn is_own(&self, authority: &str) -> bool {
        let Ok(authority) = authority.parse::<Authority>() else {
            return false;
        };
        let host = authority.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }
}

fn text(value: &http::HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accepts(origins: &Origins, origin: &[&'static str], host: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(host));
        for origin in origin {
            headers.append(ORIGIN, HeaderValue::from_static(origin));
        }
        origins.accepts(&headers, None)
    }

    #[test]
    fn a_rebound_name_is_refused() {
        let mut origins = Origins::default();
        for (origin, host, allowed) in [
            (&[][..], "evil.example", true),
            (&["http://localhost:8080"], "LOCALHOST:8080", true),
            (&["http://127.0.0.1:8080"], "127.0.0.1:8080", true),
            (&["http://[::1]:8080"], "[::1]:8080", true),
            (&["http://127.0.0.1:9090"], "127.0.0.1:8080", false),
            (
                &["http://localhost:8080", "http://evil.example"],
                "localhost:8080",
                false,
            ),
            // The attacker's name points at this server.
            (&["http://evil.example"], "evil.example", false),
            (
                &["http://127.0.0.1.evil.example"],
                "127.0.0.1.evil.example",
                false,
            ),
            (&["http://evil.example"], "localhost:8080", false),
            (&["null"], "localhost:8080", false),
        ] {
            assert_eq!(accepts(&origins, origin, host), allowed, "{origin:?} {host}");
        }
        origins.allow("https://App.example".to_owned());
        origins.allow_host("rag.example".to_owned());
        for (origin, host, allowed) in [
            ("https://app.example", "localhost:8080", true),
            ("http://app.example", "localhost:8080", false),
            ("https://rag.example", "rag.example", true),
            ("https://rag.example:1", "rag.example:1", true),
            ("https://rag.example", "localhost:8080", false),
        ] {
            assert_eq!(accepts(&origins, &[origin], host), allowed, "{origin} {host}");
        }
    }
}
