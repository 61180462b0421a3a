//! Content negotiation: the reader's `Accept` chooses the wire (RFC 9110, section 12.5.1).

use ::http::HeaderMap;
use ::http::header::ACCEPT;
use headers_accept::Accept;
use mediatype::MediaType;

use crate::failure::{Failure, FailureKind};
use crate::turn::Rejected;
use crate::wire::Wire;

/// A boxed wire, which is a [`Wire`] itself.
pub type AnyWire = Box<dyn Wire + Send + Sync>;

/// The maximum length of an `Accept` header in bytes. Browsers send a few hundred; a longer header
/// is ignored.
const MAX_ACCEPT_BYTES: usize = 4096;

/// Chooses one of `wires`, given in the server's order of preference, by the request's `Accept`
/// header.
///
/// Chooses the first wire if the header is missing or invalid. Of two wires with the same media
/// type the first is chosen. Call it before the turn starts, so that nothing is computed for a
/// client that cannot read the answer.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use ragwire::{Framed, http::negotiate, wire::Wire};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("accept", HeaderValue::from_static("text/*;q=0.5, */*;q=0.1"));
/// assert_eq!(negotiate(&headers, [Box::new(Framed::default()) as _]).unwrap().name(), "framed");
/// headers.insert("accept", HeaderValue::from_static("image/png"));
/// assert_eq!(negotiate(&headers, [Box::new(Framed::default()) as _]).unwrap_err().status(), 406);
/// ```
///
/// # Errors
///
/// Returns [`Rejected`] with status 406 if the client accepts none of them.
pub fn negotiate(headers: &HeaderMap, wires: impl IntoIterator<Item = AnyWire>) -> Result<AnyWire, Rejected> {
    let mut wires: Vec<AnyWire> = wires.into_iter().collect();
    let chosen = match accept(headers) {
        None => (!wires.is_empty()).then_some(0),
        Some(accept) => {
            // Compared without parameters: a client that accepts `text/plain` accepts its
            // `charset`.
            let types: Vec<&str> = wires.iter().map(|wire| essence(wire.content_type())).collect();
            let offered: Vec<MediaType<'_>> = types
                .iter()
                .filter_map(|name| MediaType::parse(name).ok())
                .collect();
            let agreed = accept.negotiate(&offered).map(ToString::to_string);
            agreed.and_then(|agreed| types.iter().position(|name| *name == agreed))
        }
    };
    match chosen {
        Some(index) => Ok(wires.swap_remove(index)),
        None => Err(Rejected::new(
            Failure::new(
                FailureKind::NotAcceptable,
                "The answer cannot be sent in a type that you accept.",
            )
            .permanent(),
        )),
    }
}

/// Joins all `Accept` headers. Returns `None` if the client has no preference.
fn accept(headers: &HeaderMap) -> Option<Accept> {
    let lines: Option<Vec<&str>> = headers
        .get_all(ACCEPT)
        .iter()
        .map(|line| line.to_str().ok())
        .collect();
    let line = lines?.join(", ");
    (!line.trim().is_empty() && line.len() <= MAX_ACCEPT_BYTES)
        .then(|| line.parse().ok())
        .flatten()
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Framed;
    use crate::wire::Spelling;

    /// A wire that differs only in its media type.
    #[derive(Debug)]
    struct Typed(&'static str);

    impl Wire for Typed {
        fn name(&self) -> &'static str {
            self.0
        }

        fn content_type(&self) -> &'static str {
            self.0
        }

        fn spelling(&self) -> Box<dyn Spelling> {
            Framed::default().spelling()
        }
    }

    const PLAIN: &str = "text/plain; charset=utf-8";
    const SSE: &str = "text/event-stream";
    const NDJSON: &str = "application/x-ndjson";

    #[test]
    fn accept_chooses_the_wire() {
        let many = "image/png, ".repeat(10_000);
        let cases: &[(&[&str], Option<&str>)] = &[
            (&[], Some(PLAIN)),
            (&[""], Some(PLAIN)),
            (&["*/*"], Some(PLAIN)),
            (&["text/event-stream"], Some(SSE)),
            (&["application/x-ndjson"], Some(NDJSON)),
            (&["TEXT/EVENT-STREAM"], Some(SSE)),
            (&["text/*"], Some(PLAIN)),
            (&["application/*;q=0.3, text/event-stream;q=0.2"], Some(NDJSON)),
            (&["text/plain;q=0, text/*"], Some(SSE)),
            (&["application/json", "application/x-ndjson"], Some(NDJSON)),
            (&["application/json"], None),
            (&["*/*;q=0"], None),
            (&["not a type"], Some(PLAIN)),
            (&["text/event-stream;q=lots"], Some(SSE)),
            (&[&many], Some(PLAIN)),
        ];
        for (accepts, chosen) in cases {
            let mut headers = HeaderMap::new();
            for accept in *accepts {
                headers.append(ACCEPT, accept.parse().unwrap());
            }
            let offered = [PLAIN, SSE, NDJSON].map(|name| Box::new(Typed(name)) as AnyWire);
            let answer = negotiate(&headers, offered);
            assert_eq!(
                answer.as_ref().ok().map(|wire| wire.name()),
                *chosen,
                "{accepts:.80?}"
            );
            if let Err(rejected) = answer {
                assert_eq!(
                    (rejected.status().as_u16(), rejected.failure.code()),
                    (406, "not_acceptable")
                );
            }
        }
    }
}
