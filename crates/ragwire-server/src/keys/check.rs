//! The check before each request.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ragwire_endpoints::Refusal;
use tokio::time::Instant;

use super::{Access, ApiKeys, Hash, Key, access};

/// The header of clients that have no `Authorization`.
pub const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// Asks a browser for the key, as the password of any user.
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"ragwire\", charset=\"UTF-8\"");
/// A browser does not ask for this one: it is for programs.
const BEARER: HeaderValue = HeaderValue::from_static("Bearer realm=\"ragwire\"");

/// The owner of the key of a request.
#[derive(Clone, Debug)]
pub struct Caller(pub String);

/// Checks the key of a request, and takes it out of the headers, so that no orchestrator gets it.
pub async fn check(State(keys): State<Arc<ApiKeys>>, mut request: Request, next: Next) -> Response {
    // A path without a route is not found, with a key or without.
    let Some(path) = request.extensions().get::<MatchedPath>().cloned() else {
        return next.run(request).await;
    };
    let access = access(request.method(), path.as_str());
    let key = take_key(request.headers_mut());
    if access == Access::Public {
        return next.run(request).await;
    }
    let found = key.as_deref().and_then(|key| keys.find(key));
    match allow(&keys, access, found) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => {
            let asks = refusal.status == StatusCode::UNAUTHORIZED;
            let mut response = refusal.into_response();
            if asks {
                let challenge = if access == Access::AnyKey { BASIC } else { BEARER };
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

fn allow(keys: &ApiKeys, access: Access, found: Option<(Hash, Arc<Key>)>) -> Result<Caller, Refusal> {
    let Some((hash, key)) = found else {
        return Err(Refusal::permanent(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "The request needs one valid API key: `Authorization: Bearer KEY`.",
        ));
    };
    keys.take(hash, &key, Instant::now()).map_err(|after| {
        let message = "This API key has sent its requests of this minute.";
        Refusal::temporary(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message).retry_after(after)
    })?;
    if let Access::OneOf(scopes) = access
        && !scopes.iter().any(|scope| key.scopes.contains(scope))
    {
        let names: Vec<_> = scopes.iter().map(|scope| scope.name()).collect();
        return Err(Refusal::permanent(
            StatusCode::FORBIDDEN,
            "forbidden",
            format!("This API key does not have the scope: {}.", names.join(" or ")),
        ));
    }
    Ok(Caller(key.owner.clone()))
}

/// Takes the key out of the headers: exactly one of `Authorization: Bearer KEY`, `x-api-key: KEY`, or
/// the password of `Authorization: Basic`, which is how a browser sends it.
fn take_key(headers: &mut HeaderMap) -> Option<Vec<u8>> {
    let mut given = Vec::new();
    for value in headers.get_all(AUTHORIZATION) {
        given.push(of_authorization(value.as_bytes()));
    }
    for value in headers.get_all(API_KEY) {
        given.push(Some(value.as_bytes().to_vec()));
    }
    headers.remove(AUTHORIZATION);
    headers.remove(API_KEY);
    let [key] = given.try_into().ok()?;
    key
}

fn of_authorization(value: &[u8]) -> Option<Vec<u8>> {
    let at = value.iter().position(|byte| *byte == b' ')?;
    let (scheme, rest) = (&value[..at], value[at..].trim_ascii());
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Some(rest.to_vec());
    }
    if !scheme.eq_ignore_ascii_case(b"basic") {
        return None;
    }
    let pair = BASE64.decode(rest).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    Some(pair[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_key_counts_and_none_stays() {
        for (given, key) in [
            (&[("authorization", "Bearer k")][..], Some("k")),
            (&[("authorization", "bearer  k")], Some("k")),
            (&[("x-api-key", "k")], Some("k")),
            // `ada:k:1` and `ada`
            (&[("authorization", "Basic YWRhOms6MQ==")], Some("k:1")),
            (&[("authorization", "Basic YWRh")], None),
            (&[("authorization", "Basic ?")], None),
            (&[("authorization", "Digest k")], None),
            (&[("authorization", "k")], None),
            (&[], None),
            (&[("x-api-key", "k"), ("authorization", "Bearer k")], None),
            (&[("x-api-key", "k"), ("x-api-key", "k")], None),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(
                take_key(&mut headers).as_deref(),
                key.map(str::as_bytes),
                "{given:?}"
            );
            assert!(headers.is_empty());
        }
    }
}
