//! The API key: a value that goes into one header and shows nowhere else.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

use super::error::UpstreamError;

/// Longest key in bytes: signed tokens of gateways have some thousand, and hyper's servers take heads of 16 KiB at most.
const MAX_KEY_BYTES: usize = 8 * 1024;

/// An API key. It has no `Display` and no serialisation, and its `Debug` shows none of it; the header that it goes into is marked as sensitive.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Takes a key without the white space around it, as a line of a file has it.
    ///
    /// # Errors
    ///
    /// [`UpstreamError::Key`] where it is empty, longer than 8 KiB, or has other than visible ASCII characters. The error does not repeat it.
    pub fn new(key: impl AsRef<str>) -> Result<Self, UpstreamError> {
        let key = key.as_ref().trim();
        let refused = if key.is_empty() {
            Some("it is empty")
        } else if key.len() > MAX_KEY_BYTES {
            Some("it is longer than 8 KiB")
        } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            Some("it has characters that no header takes")
        } else {
            None
        };
        refused.map_or_else(|| Ok(Self(key.into())), |reason| Err(UpstreamError::Key(reason)))
    }

    /// `Bearer …`, as every server of this protocol takes it.
    pub(super) fn header(&self) -> Result<HeaderValue, UpstreamError> {
        let mut header = HeaderValue::try_from(format!("Bearer {}", self.0))
            .map_err(|_| UpstreamError::Key("it has characters that no header takes"))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// The text without the key in it.
    pub(super) fn redact(&self, text: &str) -> String {
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
