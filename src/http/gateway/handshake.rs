//! The handshake: turns a request into a socket, or into a complete JSON error.

use ::http::header::{ALLOW, CONNECTION, HOST, HeaderValue, ORIGIN, SEC_WEBSOCKET_VERSION, UPGRADE};
use ::http::{HeaderMap, Request, Response, StatusCode};
use bytes::Bytes;
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite;
use tungstenite::error::ProtocolError;

use crate::failure::Failure;
use crate::http::{TurnBody, error_response};
use crate::turn::TurnId;

/// The origins whose pages may open a socket. Browsers allow any page to try, so the server must
/// check.
#[derive(Debug, Default)]
pub(super) struct Origins {
    any: bool,
    allowed: Vec<String>,
}

impl Origins {
    pub(super) fn allow(&mut self, origin: String) {
        self.allowed.push(origin);
    }

    pub(super) fn allow_any(&mut self) {
        self.any = true;
    }

    /// Returns `true` if the origin of the request may open a socket. Clients other than browsers
    /// send none.
    fn accepts<B>(&self, request: &Request<B>) -> bool {
        let mut origins = request.headers().get_all(ORIGIN).iter();
        let origin = match (origins.next(), origins.next()) {
            _ if self.any => return true,
            (None, _) => return true,
            (Some(_), Some(_)) => return false,
            (Some(origin), None) => origin.to_str().unwrap_or_default(),
        };
        let is_same_origin = origin.split_once("://").is_some_and(|(_, authority)| {
            host(request).is_some_and(|host| host.eq_ignore_ascii_case(authority))
        });
        is_same_origin
            || self
                .allowed
                .iter()
                .any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

fn host<B>(request: &Request<B>) -> Option<&str> {
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => request.headers().get(HOST)?.to_str().ok(),
    }
}

/// Returns the 101 for this request, and the upgrade that becomes the socket once the 101 is sent.
#[expect(
    clippy::result_large_err,
    reason = "the error is the response, passed on once"
)]
pub(super) fn shake<B>(
    request: &mut Request<B>,
    origins: &Origins,
) -> Result<(Response<TurnBody>, OnUpgrade), Response<TurnBody>> {
    if !origins.accepts(request) {
        let failure = Failure::new(
            "foreign_origin",
            "Pages of another origin may not open this socket.",
        );
        return Err(refuse(
            StatusCode::FORBIDDEN,
            &failure.permanent(),
            HeaderMap::new(),
        ));
    }
    let body = || TurnBody::from(Bytes::new());
    let response = match tungstenite::handshake::server::create_response_with_body(request, body) {
        Ok(response) => response,
        Err(error) => return Err(invalid_handshake(&error)),
    };
    if request.extensions().get::<OnUpgrade>().is_none() {
        tracing::error!("the connection is served without upgrades");
        let failure = Failure::new("internal", "The server failed. Please retry.");
        return Err(refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            &failure,
            HeaderMap::new(),
        ));
    }
    Ok((response, hyper::upgrade::on(request)))
}

fn invalid_handshake(error: &tungstenite::Error) -> Response<TurnBody> {
    let mut headers = HeaderMap::new();
    let status = match error {
        tungstenite::Error::Protocol(ProtocolError::WrongHttpMethod) => {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
            StatusCode::METHOD_NOT_ALLOWED
        }
        tungstenite::Error::Protocol(
            ProtocolError::WrongHttpVersion
            | ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader
            | ProtocolError::MissingSecWebSocketVersionHeader,
        ) => {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            StatusCode::UPGRADE_REQUIRED
        }
        _ => StatusCode::BAD_REQUEST,
    };
    let failure = Failure::new(
        "websocket_required",
        "This route speaks WebSocket (version 13, over HTTP/1.1) only.",
    );
    refuse(status, &failure.permanent(), headers)
}

fn refuse(status: StatusCode, failure: &Failure, headers: HeaderMap) -> Response<TurnBody> {
    let mut response = error_response(status, failure, &TurnId::random().to_string(), None);
    response.headers_mut().extend(headers);
    response
}
