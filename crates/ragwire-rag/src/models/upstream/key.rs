//! The API key: a value that is sent in one header and shown nowhere else.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

use super::error::UpstreamError;

/// Length in bytes of the longest key: signed tokens of gateways have a few thousand, and hyper's
/// servers take heads of at most 16 KiB.
const MAX_KEY_BYTES: usize = 8 * 1024;

/// An API key. It implements neither `Display` nor serialization, its `Debug` hides it, and the
/// header with it is marked as sensitive.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Takes a key and trims it, so that it may come from a line of a file.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Key`] if it is empty, longer than 8 KiB, or contains other than visible
    /// ASCII characters. The error does not contain the key.
    pub fn new(key: impl AsRef<str>) -> Result<Self, UpstreamError> {
        let key = key.as_ref().trim();
        let refused = if key.is_empty() {
            Some("it is empty")
        } else if key.len() > MAX_KEY_BYTES {
            Some("it is longer than 8 KiB")
        } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            Some("it has characters that are not allowed in a header")
        } else {
            None
        };
        refused.map_or_else(|| Ok(Self(key.into())), |reason| Err(UpstreamError::Key(reason)))
    }

    /// Returns the header `Bearer …`, as every server of this protocol expects it.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Key`].
    pub fn header(&self) -> Result<HeaderValue, UpstreamError> {
        let mut header = HeaderValue::try_from(format!("Bearer {}", self.0))
            .map_err(|_| UpstreamError::Key("it has characters that are not allowed in a header"))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Replaces the key in a text, for logs.
    pub fn redact(&self, text: &str) -> String {
        text.replace(&*self.0, "(key)")
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_checked_and_never_shown() {
        let key = ApiKey::new(" sk-s3cret\n").unwrap();
        assert_eq!(
            format!("{key:?} {:?}", key.header().unwrap()),
            "ApiKey(not shown) Sensitive"
        );
        assert_eq!(key.header().unwrap(), "Bearer sk-s3cret");
        for bad in [
            "",
            " \n",
            "s3cret key",
            "s3cret\nx",
            "s3cret\u{e9}",
            "s3cret\0",
            &"s3cret".repeat(2_000),
        ] {
            let error = ApiKey::new(bad).unwrap_err();
            assert_eq!(error.code(), "upstream_key");
            assert!(!format!("{error} {error:?}").contains("s3cret"));
        }
    }
}
