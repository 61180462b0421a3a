//! Protects the server from web pages of other origins.
//!
//! A server on loopback has no login, yet every page that its user opens can send requests to it.
//! Two checks prevent abuse. The `Host` must be a name of this server: otherwise a page whose name
//! an attacker points at 127.0.0.1 (DNS rebinding) would be same-origin. And requests that change
//! something or open a socket must not come from a page of another origin, because browsers send
//! uploads and plain posts without asking. There is no CORS unless an origin is allowed by name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LOCATION, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN, RETRY_AFTER, UPGRADE};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use ragwire_endpoints::Refusal;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::settings::Settings;

const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");

/// The allowed hosts and origins.
#[derive(Debug)]
pub struct Guard {
    /// Whether addresses and local names are accepted too, see [`is_fixed`]. A server on the network
    /// does not know its own addresses and names.
    accepts_fixed_hosts: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    /// Creates the guard of a server that listens on `address`.
    pub fn new(settings: &Settings, address: SocketAddr) -> Self {
        let mut hosts: Vec<_> = settings
            .allow_host
            .iter()
            .map(|host| host.to_ascii_lowercase())
            .collect();
        let accepts_fixed_hosts = !address.ip().is_loopback() && hosts.is_empty();
        hosts.push("localhost".to_owned());
        hosts.push(host_of(address));
        Self {
            accepts_fixed_hosts,
            hosts,
            origins: settings.allow_origin.clone(),
        }
    }

    /// Returns the CORS layer for the allowed origins, if there are any.
    pub fn cors(&self) -> Option<CorsLayer> {
        let origins: Vec<_> = self
            .origins
            .iter()
            .filter_map(|origin| HeaderValue::from_str(origin).ok())
            .collect();
        (!origins.is_empty()).then(|| {
            CorsLayer::new()
                .allow_origin(AllowOrigin::list(origins))
                .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
                // The clients of each wire send different headers, so an allowed origin may send
                // any.
                .allow_headers(AllowHeaders::mirror_request())
                .expose_headers(EXPOSED)
        })
    }

    fn check(&self, request: &Request) -> Result<(), Refusal> {
        let Some(authority) = authority(request) else {
            return Err(Refusal::permanent(
                StatusCode::BAD_REQUEST,
                "bad_host",
                "The request needs exactly one valid Host header.",
            ));
        };
        let host = authority.host().to_ascii_lowercase();
        let is_loopback = address_of(&host).is_some_and(|address| address.is_loopback());
        let is_known =
            is_loopback || self.hosts.contains(&host) || (self.accepts_fixed_hosts && is_fixed(&host));
        if !is_known {
            return Err(Refusal::permanent(
                StatusCode::MISDIRECTED_REQUEST,
                "foreign_host",
                "Unknown host name: add it with --allow-host.",
            ));
        }
        // Browsers open WebSockets across origins without asking, and let the page read everything.
        let is_read_only = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method())
            && !request.headers().contains_key(UPGRADE);
        if is_read_only || self.is_own_origin(request.headers(), &authority) {
            return Ok(());
        }
        Err(Refusal::permanent(
            StatusCode::FORBIDDEN,
            "foreign_origin",
            "Pages of this origin may not call the server: add it with --allow-origin.",
        ))
    }

    /// Returns whether the `Origin` is this server or an allowed one. Clients other than browsers
    /// send none.
    fn is_own_origin(&self, headers: &HeaderMap, authority: &Authority) -> bool {
        headers.get_all(ORIGIN).iter().all(|origin| {
            let Ok(origin) = origin.to_str() else {
                return false;
            };
            let is_same = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"))
                .is_some_and(|origin| origin.eq_ignore_ascii_case(authority.as_str()));
            is_same || self.origins.iter().any(|allowed| allowed == origin)
        })
    }
}

/// Returns the host of the request: in HTTP/2 from its target, in HTTP/1 from exactly one header.
fn authority(request: &Request) -> Option<Authority> {
    if let Some(authority) = request.uri().authority() {
        return Some(authority.clone());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next()?;
    if hosts.next().is_some() {
        return None;
    }
    Authority::try_from(host.as_bytes())
        .ok()
        .filter(|authority| !authority.as_str().contains('@'))
}

/// Returns `true` for a host that the owner of a domain cannot point at another server: an address,
/// or a name without a dot, which only the local network resolves.
fn is_fixed(host: &str) -> bool {
    address_of(host).is_some() || !host.contains('.')
}

fn address_of(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn host_of(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// Response headers that the clients of the wires read, besides the content type.
const EXPOSED: [HeaderName; 11] = [
    ragwire::http::TURN_HEADER,
    RETRY_AFTER,
    LOCATION,
    // LangGraph's client learns the ID of a run from it.
    CONTENT_LOCATION,
    HeaderName::from_static("mcp-session-id"),
    HeaderName::from_static("preference-applied"),
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("x-eve-session-id"),
    HeaderName::from_static("x-eve-stream-format"),
    HeaderName::from_static("x-eve-stream-version"),
    HeaderName::from_static("x-vercel-ai-ui-message-stream"),
];

/// Runs the checks before a request.
pub async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    // A browser must not guess another type for the text of a document.
    let nosniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert(NOSNIFF, nosniff);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the status of a request with this host, or 200.
    fn status(guard: &Guard, host: &str) -> u16 {
        let request = Request::get("/").header(HOST, host);
        let request = request.body(axum::body::Body::empty()).unwrap();
        guard
            .check(&request)
            .map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn a_server_on_the_network_is_not_reached_by_a_foreign_domain() {
        let settings = Settings::default();
        let network = Guard::new(&settings, "0.0.0.0:8787".parse().unwrap());
        for host in [
            "192.0.2.7",
            "192.0.2.7:8787",
            "[2001:db8::1]:8787",
            "localhost:8787",
            "ragwire:8787",
        ] {
            assert_eq!(status(&network, host), 200, "{host}");
        }
        for host in ["evil.example", "192.0.2.7.evil.example:8787", "ragwire."] {
            assert_eq!(status(&network, host), 421, "{host}");
        }
        let loopback = Guard::new(&settings, "127.0.0.1:8787".parse().unwrap());
        for host in ["192.0.2.7", "ragwire", "evil.example", "127.0.0.1.evil.example"] {
            assert_eq!(status(&loopback, host), 421, "{host}");
        }
        for host in ["localhost:8787", "127.0.0.1:8787", "127.1.2.3:9000", "[::1]:8787"] {
            assert_eq!(status(&loopback, host), 200, "{host}");
        }
        let named = Settings {
            allow_host: vec!["Docs.example.org".to_owned()],
            ..Settings::default()
        };
        let named = Guard::new(&named, "0.0.0.0:8787".parse().unwrap());
        for (host, expected) in [("docs.example.org", 200), ("192.0.2.7", 421), ("ragwire", 421)] {
            assert_eq!(status(&named, host), expected, "{host}");
        }
    }
}
