//! Reads the errors of servers, in the shapes that servers use.

use serde_json::Value;

use super::error::UpstreamError;
use super::key::ApiKey;

/// Length in characters of the longest message that is kept: the first sentences are the reason,
/// the rest is a trace.
const MAX_MESSAGE_CHARS: usize = 300;

/// The longest name of an error that is shown without its message.
const MAX_WORD_BYTES: usize = 64;

/// The error in a server's response, in any of the usual shapes: `{"error": {…}}` (OpenAI),
/// `{"error": "…"}` (Ollama), `[{"error": {…}}]` (Gemini), `{"message": …}` (vLLM), `{"detail": …}`
/// (FastAPI).
#[derive(Debug, Default)]
pub(super) struct UpstreamErrorBody {
    message: Option<String>,
    kind: String,
    code: String,
    status: Option<u16>,
    prompt: Option<u32>,
    context: Option<u32>,
    hides_message: bool,
}

impl UpstreamErrorBody {
    pub(super) fn of(value: &Value, key: Option<&ApiKey>) -> Self {
        let value = value.get(0).unwrap_or(value);
        let object = value.get("error").unwrap_or(value);
        if let Value::String(message) = object {
            return Self {
                message: Some(shown(message, key)),
                ..Self::default()
            };
        }
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let number = |name: &str| object.get(name).and_then(Value::as_u64);
        let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
        let status = ["code", "http_status_code", "status_code", "status"];
        Self {
            message: text("message")
                .or_else(|| text("detail"))
                .map(|message| shown(message, key)),
            kind: text("type").unwrap_or_default().to_owned(),
            code: text("code").unwrap_or_default().to_owned(),
            status: status
                .into_iter()
                .find_map(number)
                .and_then(|status| u16::try_from(status).ok()),
            prompt: small("n_prompt_tokens"),
            context: small("n_ctx"),
            hides_message: false,
        }
    }

    /// Reads the body of a response.
    pub(super) fn read(body: &[u8], key: Option<&ApiKey>) -> Self {
        serde_json::from_slice(body).map_or_else(|_| Self::default(), |value: Value| Self::of(&value, key))
    }

    /// Leaves the message out of the error unless it may be shown.
    pub(super) fn with_message(mut self, is_shown: bool) -> Self {
        self.hides_message = !is_shown;
        self
    }

    fn reason(self) -> String {
        if !self.hides_message {
            return self.message.unwrap_or_else(|| "no reason".into());
        }
        let words: Vec<_> = [self.kind, self.code]
            .into_iter()
            .filter(|word| is_word(word))
            .collect();
        if words.is_empty() {
            "its message is not shown".into()
        } else {
            format!("{}; its message is not shown", words.join(", "))
        }
    }

    /// Recognizes an overflow: OpenAI and llama.cpp have a code for it, vLLM only a sentence.
    fn overflow(&self) -> Option<UpstreamError> {
        let is_overflow = self.code == "context_length_exceeded"
            || self.kind == "exceed_context_size_error"
            || self
                .message
                .as_ref()
                .is_some_and(|message| message.contains("maximum context length"));
        is_overflow.then_some(UpstreamError::Overflow {
            prompt: self.prompt,
            context: self.context,
        })
    }

    /// The error as the reason of a status.
    pub(super) fn refusal(self, status: u16) -> UpstreamError {
        let overflow = self
            .overflow()
            .filter(|_| matches!(status, 400 | 413 | 422 | 500));
        overflow.unwrap_or_else(|| UpstreamError::Refused {
            status,
            exhausted: self.code == "insufficient_quota" || self.kind == "insufficient_quota",
            message: self.reason(),
        })
    }

    /// The error as an event of a stream.
    pub(super) fn report(self) -> UpstreamError {
        let overflow = self.overflow();
        // Without a status, only the type shows that the request itself is at fault.
        let status = self
            .status
            .or_else(|| self.kind.contains("invalid_request").then_some(400));
        overflow.unwrap_or_else(|| UpstreamError::Reported {
            status,
            message: self.reason(),
        })
    }
}

/// Returns `true` for the name of an error, which holds no sentence.
fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=MAX_WORD_BYTES).contains(&text.len()) && text.bytes().all(is_letter)
}

/// Sanitizes a message for a log: short, on one line, and without the key, which some servers
/// repeat.
fn shown(message: &str, key: Option<&ApiKey>) -> String {
    let message = key.map_or_else(|| message.to_owned(), |key| key.redact(message));
    message
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(MAX_MESSAGE_CHARS)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_shape_of_an_error_is_understood() {
        let key = ApiKey::new("sk-s3cret").unwrap();
        for (value, shown) in [
            (
                json!({"error": {"message": "a", "type": "b", "param": null, "code": null}}),
                "a",
            ),
            (json!({"error": "a"}), "a"),
            (
                json!([{"error": {"code": 500, "message": "a", "status": "INTERNAL"}}]),
                "a",
            ),
            (
                json!({"object": "error", "message": "a", "type": "BadRequestError", "code": 400}),
                "a",
            ),
            (json!({"detail": "a"}), "a"),
            (
                json!({"error": {"message": "bad key sk-s3cret\nsee"}}),
                "bad key (key) see",
            ),
            (json!({"error": {}}), "no reason"),
            (json!({"detail": [{"loc": 1}]}), "no reason"),
            (json!(null), "no reason"),
            (json!([]), "no reason"),
            (json!(7), "no reason"),
        ] {
            let error = UpstreamErrorBody::of(&value, Some(&key)).refusal(500);
            assert_eq!(
                error.to_string(),
                format!("the server answered 500: {shown}"),
                "{value}"
            );
        }
        let long = json!({"error": "x".repeat(1_000)});
        assert_eq!(
            UpstreamErrorBody::of(&long, None).message.unwrap().len(),
            MAX_MESSAGE_CHARS
        );
        assert_eq!(
            UpstreamErrorBody::read(b"<html>", None).refusal(502).to_string(),
            "the server answered 502: no reason"
        );
    }

    #[test]
    fn a_hidden_message_leaves_the_names_of_the_error() {
        for (value, shown) in [
            (
                json!({"error": {"message": "SECRET", "type": "invalid_request_error", "code": "model_not_found"}}),
                "invalid_request_error, model_not_found; its message is not shown",
            ),
            (
                json!({"error": {"message": "SECRET", "type": "SECRET with words", "code": 400}}),
                "its message is not shown",
            ),
            (json!({"error": "SECRET"}), "its message is not shown"),
            (json!({"detail": "SECRET"}), "its message is not shown"),
        ] {
            let error = UpstreamErrorBody::of(&value, None).with_message(false);
            assert_eq!(error.reason(), shown);
        }
        let overflow = json!({"error": {"message": "the maximum context length is 8 tokens: SECRET"}});
        let error = UpstreamErrorBody::of(&overflow, None)
            .with_message(false)
            .refusal(400);
        assert!(matches!(error, UpstreamError::Overflow { .. }), "{error}");
    }

    #[test]
    fn transient_errors_are_recognized() {
        let transient =
            |status: u16, body: Value| UpstreamErrorBody::of(&body, None).refusal(status).is_transient();
        for status in 300..=599 {
            assert_eq!(
                transient(status, Value::Null),
                [408, 429, 500, 502, 503, 504].contains(&status),
                "{status}"
            );
        }
        assert!(!transient(429, json!({"error": {"code": "insufficient_quota"}})));
        let reported = |body: Value| UpstreamErrorBody::of(&body, None).report().is_transient();
        for (body, passes) in [
            (
                json!({"error": {"message": "a", "type": "server_error", "code": null}}),
                true,
            ),
            (json!({"error": {"message": "a", "code": 503}}), true),
            (json!({"error": {"message": "a", "http_status_code": 422}}), false),
            (
                json!({"error": {"message": "a", "type": "BadRequestError", "code": 400}}),
                false,
            ),
            (
                json!({"error": {"message": "a", "type": "invalid_request_error"}}),
                false,
            ),
            (json!({"error": "a"}), true),
        ] {
            assert_eq!(reported(body.clone()), passes, "{body}");
        }
    }
}
