//! Reads requests: bodies with a limit per kind, and ids in paths.

use std::convert::Infallible;

use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, Query, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use ragwire::Question;
use ragwire::orchestrator::FILTER;
use ragwire::session::Sessions;
use ragwire::turn::{Ask, TurnId};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::body;
use crate::refusal::Refusal;
use crate::shared::Shared;

/// Room in a body for everything around the texts: braces and further members.
const ENVELOPE_BYTES: usize = 4096;
/// The same for a body with a whole conversation, whose messages have ids and metadata.
const CONVERSATION_ENVELOPE_BYTES: usize = 1 << 20;
/// One byte of text may be written as an escape of six bytes.
const ESCAPE_BYTES: usize = 6;

/// The content of a body, which determines its size limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyKind {
    /// One question.
    Question,
    /// One question and all messages before it.
    Conversation,
    /// A human's answer to a question of the turn.
    Answer,
}

/// Returns the largest body of this kind, in bytes.
pub(crate) fn max_bytes(shared: &Shared, kind: BodyKind) -> usize {
    let max_question = shared.limits.max_question_bytes;
    match kind {
        BodyKind::Question => max_question * ESCAPE_BYTES + ENVELOPE_BYTES,
        BodyKind::Conversation => {
            let attachments = if shared.accepts_attachments {
                shared.limits.max_attachment_bytes
            } else {
                0
            };
            let texts = max_question + shared.sessions.limits().max_bytes;
            texts * ESCAPE_BYTES + CONVERSATION_ENVELOPE_BYTES + attachments
        }
        BodyKind::Answer => Ask::MAX_ANSWER_BYTES * ESCAPE_BYTES + ENVELOPE_BYTES,
    }
}

/// Reads a body of at most `max_bytes`.
pub(crate) async fn read_bytes(
    shared: &Shared,
    max_bytes: usize,
    request: Request,
) -> Result<(HeaderMap, Bytes), Refusal> {
    let (head, body) = request.into_parts();
    let body = shared.bodies.read(&head, body, max_bytes).await?;
    Ok((head.headers, body.into_bytes()))
}

/// Reads a JSON body. A full server reads it too, because human answers are what makes room; a
/// question is refused later, when its turn starts.
pub(crate) async fn read_json<T: DeserializeOwned>(
    shared: &Shared,
    kind: BodyKind,
    request: Request,
) -> Result<T, Refusal> {
    let (headers, bytes) = read_bytes(shared, max_bytes(shared, kind), request).await?;
    body::json(&headers, &bytes)
}

/// Reads an optional JSON body: an empty one is `None`.
pub(crate) async fn read_optional_json<T: DeserializeOwned>(
    shared: &Shared,
    max_bytes: usize,
    request: Request,
) -> Result<Option<T>, Refusal> {
    let (headers, bytes) = read_bytes(shared, max_bytes, request).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    body::json(&headers, &bytes)
}

/// Reads a JSON body with a question, unless the server is full or shuts down.
pub(crate) async fn read_question<T: DeserializeOwned>(
    shared: &Shared,
    kind: BodyKind,
    request: Request,
) -> Result<T, Refusal> {
    if let Err(rejected) = shared.turns.check() {
        let (head, body) = request.into_parts();
        body::linger(&head.headers, body).await;
        return Err(rejected.into());
    }
    read_json(shared, kind, request).await
}

/// The parameters of a query. A malformed query has none.
#[derive(Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    #[cfg(test)]
    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs = pairs.into_iter();
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Returns the values of a parameter, in the order of the query.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(other, _)| other == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Returns the first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the number in a parameter, or `None` if it is absent.
    ///
    /// # Errors
    ///
    /// 422 if it is not a number, or has more than 63 bits, which clients read as negative.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Refusal> {
        let number = |text: &str| text.parse().ok().filter(|number| i64::try_from(*number).is_ok());
        self.get(name)
            .map(|text| {
                number(text).ok_or_else(|| invalid(format!("`{name}` must be a whole number below 2^63.")))
            })
            .transpose()
    }

    /// Returns `true` if a parameter is `1` or `true`, in any case.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        let value = self.get(name);
        value.is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }
}

impl<S: Sync> FromRequestParts<S> for Params {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = Query::try_from_uri(&parts.uri);
        Ok(Self(query.map(|Query(pairs)| pairs).unwrap_or_default()))
    }
}

/// One parameter of a path.
pub(crate) type PathParam = Result<Path<String>, PathRejection>;

/// Returns the session id in a path.
pub(crate) fn session_id(param: PathParam) -> Result<String, Refusal> {
    check_session_id(param.map(|Path(id)| id).unwrap_or_default())
}

/// Returns a session id that a client chose, or 400.
pub(crate) fn check_session_id(id: String) -> Result<String, Refusal> {
    if Sessions::is_id(&id) {
        return Ok(id);
    }
    Err(Refusal::permanent(
        StatusCode::BAD_REQUEST,
        "bad_session_id",
        "A session id has 1 to 128 letters, digits, `-`, `_` and `.`.",
    ))
}

/// Returns the turn id in a path. A malformed id becomes a random one, which no turn has.
pub(crate) fn turn_id(param: PathParam) -> TurnId {
    let id = param.ok().and_then(|Path(id)| TurnId::parse(&id));
    id.unwrap_or_else(TurnId::random)
}

/// Reads a count from JSON. `20.0` is a whole number too, and a number that does not fit counts as the
/// largest that does.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    let Some(number) = Option::<Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let whole = number.as_u64().or_else(|| {
        let number = number.as_f64()?;
        // The conversion saturates.
        (number >= 0.0 && number.fract() == 0.0).then_some(number as u64)
    });
    let whole =
        whole.ok_or_else(|| D::Error::custom(format_args!("{number} is not a whole number from 0")))?;
    Ok(Some(usize::try_from(whole).unwrap_or(usize::MAX)))
}

/// Reads an object from JSON. Serde alone would accept an array, member by member.
pub(crate) fn from_object<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let members = Map::deserialize(deserializer)?;
    T::deserialize(Value::Object(members)).map_err(D::Error::custom)
}

/// Adds the filter of a request to its question.
pub(crate) fn set_filter(question: &mut Question, filter: Option<Value>) {
    if let Some(filter) = filter {
        question.options.extra.insert(FILTER.to_owned(), filter);
    }
}

/// The refusal of JSON that the route does not accept.
pub(crate) fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::permanent(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
}
