//! The ID of an HTTP request, which its response and its log entries have.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use ragwire::turn::TurnId;

use crate::refusal::REQUEST_ID;

tokio::task_local! {
    static CURRENT: RequestId;
}

/// The ID of a request: the one that its client or proxy sent in `x-request-id`, or a random one.
///
/// It grants nothing, unlike the ID of a turn, so a log may have the whole of it. A server that
/// answers a request in [`scope`](Self::scope) has the same ID in refusals of that request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The header of requests and responses.
    pub const HEADER: HeaderName = REQUEST_ID;
    /// The longest ID of a client, in bytes: longer than those of proxies and tracing systems.
    pub const MAX_BYTES: usize = 128;

    /// Returns the ID of a request with these headers. An ID of the client must be the only one,
    /// and have 1 to 128 letters, digits, `-`, `_`, `.`, `:` or `=`; otherwise it is replaced.
    pub fn of(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(REQUEST_ID).iter();
        let given = values.next().filter(|_| values.next().is_none());
        let given = given
            .and_then(|value| value.to_str().ok())
            .filter(|id| is_valid(id));
        match given {
            Some(id) => Self(id.into()),
            None => Self(TurnId::random().to_string().into()),
        }
    }

    /// Returns the ID.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the value of `x-request-id` for the response.
    pub fn header(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.0).ok()
    }

    /// Runs `work` for this request: refusals that it creates have this ID.
    pub async fn scope<W: Future>(self, work: W) -> W::Output {
        CURRENT.scope(self, work).await
    }

    /// Returns the ID of the request that the current task answers.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

fn is_valid(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:=".contains(&byte);
    (1..=RequestId::MAX_BYTES).contains(&id.len()) && id.bytes().all(is_allowed)
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_well_formed_id_is_kept_and_any_other_is_replaced() {
        let long = "a".repeat(RequestId::MAX_BYTES);
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(REQUEST_ID, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            RequestId::of(&headers).to_string()
        };
        for id in ["a", "0af7651916cd43dd8448eb211c80319c", "Root=1-5f:2_b.c", &long] {
            assert_eq!(of(&[id]), id);
        }
        let too_long = format!("{long}a");
        for ids in [
            &[][..],
            &[""],
            &["a b"],
            &["\u{e9}"],
            &["a\"b"],
            &["a", "b"],
            &[&too_long],
        ] {
            let made = of(ids);
            assert!(made.len() == 32 && !ids.contains(&&*made), "{ids:?}: {made}");
        }
    }
}
