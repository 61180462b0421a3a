//! The file of keys: one key per line.
//!
//! `sha256:DIGEST owner=alice scopes=ask,read rate=60`, in any order after the digest. Empty lines
//! and lines that start with `#` are comments.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;

use super::{Hash, Key, Scope};

/// Longest owner, as for `--owner-header`.
const MAX_OWNER_BYTES: usize = 1024;
/// Upper bound of a rate: more than one client can send.
const MAX_RATE: u32 = 1_000_000;
/// How a line begins.
const ALGORITHM: &str = "sha256:";

/// A file of keys that cannot be used. Its message has nothing of a key or a digest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file cannot be read.
    #[error("api-keys file {}: {reason}; make a key with `ragwire-server keys new --owner NAME`", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        reason: std::io::Error,
    },
    /// A line is not a key.
    #[error("api-keys file {}, line {line}: {reason}", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
}

/// Reads the keys of a file.
pub(super) fn read(file: &Path) -> Result<HashMap<Hash, Arc<Key>>, KeysError> {
    let text = std::fs::read_to_string(file).map_err(|reason| KeysError::Unreadable {
        file: file.to_owned(),
        reason,
    })?;
    let mut table = HashMap::new();
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |reason| KeysError::Line {
            file: file.to_owned(),
            line: at + 1,
            reason,
        };
        let (hash, key) = parse(line).map_err(wrong)?;
        if table.insert(hash, Arc::new(key)).is_some() {
            return Err(wrong("this key is in the file twice".to_owned()));
        }
    }
    Ok(table)
}

fn parse(line: &str) -> Result<(Hash, Key), String> {
    let mut words = line.split_whitespace();
    let digest = words.next().and_then(|word| word.strip_prefix(ALGORITHM));
    let digest = digest.and_then(|hex| HEXLOWER.decode(hex.as_bytes()).ok());
    let hash: Hash = digest
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or("a line starts with `sha256:` and 64 hexadecimal digits")?;
    let (mut owner, mut scopes, mut rate) = (None, None, None);
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or("after the digest come owner=NAME, scopes=ask,read and rate=60")?;
        let is_first = match name {
            "owner" => owner.replace(parse_owner(value)?).is_none(),
            "scopes" => scopes.replace(parse_scopes(value)?).is_none(),
            "rate" => rate.replace(parse_rate(value)?).is_none(),
            _ => return Err(format!("unknown member `{name}`: write owner, scopes or rate")),
        };
        if !is_first {
            return Err(format!("`{name}` is in the line twice"));
        }
    }
    let key = Key {
        owner: owner.ok_or("the line has no owner=NAME")?,
        scopes: scopes.ok_or("the line has no scopes=ask,read")?,
        rate,
    };
    Ok((hash, key))
}

/// Parses the owner of a key.
pub(super) fn parse_owner(text: &str) -> Result<String, String> {
    let is_valid = |c: char| !c.is_whitespace() && !c.is_control();
    if text.is_empty() || text.len() > MAX_OWNER_BYTES || !text.chars().all(is_valid) {
        return Err(format!(
            "an owner has 1 to {MAX_OWNER_BYTES} bytes without white space"
        ));
    }
    Ok(text.to_owned())
}

/// Parses scopes, separated by commas.
pub(super) fn parse_scopes(text: &str) -> Result<Vec<Scope>, String> {
    let named = |name: &str| Scope::ALL.into_iter().find(|scope| scope.name() == name);
    text.split(',')
        .map(|name| {
            named(name).ok_or_else(|| format!("unknown scope `{name}`: write ask, read, documents or admin"))
        })
        .collect()
}

/// Parses requests per minute.
pub(super) fn parse_rate(text: &str) -> Result<u32, String> {
    let rate = text.parse().ok().filter(|rate| (1..=MAX_RATE).contains(rate));
    rate.ok_or_else(|| format!("a rate is from 1 to {MAX_RATE} requests per minute"))
}

/// Writes the line of a key.
pub(super) struct Line<'a>(pub(super) Hash, pub(super) &'a Key);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(hash, key) = self;
        let scopes: Vec<_> = key.scopes.iter().map(|scope| scope.name()).collect();
        write!(
            f,
            "{ALGORITHM}{} owner={} scopes={}",
            HEXLOWER.encode(hash),
            key.owner,
            scopes.join(",")
        )?;
        key.rate.map_or(Ok(()), |rate| write!(f, " rate={rate}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_prints_as_it_parses() {
        for key in [
            Key {
                owner: "alice@example.org".into(),
                scopes: vec![Scope::Ask, Scope::Documents],
                rate: Some(60),
            },
            Key {
                owner: "b".into(),
                scopes: Scope::ALL.to_vec(),
                rate: None,
            },
        ] {
            let line = Line([7; 32], &key).to_string();
            assert_eq!(parse(&line), Ok(([7; 32], key)), "{line}");
        }
    }

    #[test]
    fn a_wrong_line_is_named_with_its_fix_and_without_its_digest() {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let good = format!("{digest} owner=a scopes=ask");
        let file = tempfile::NamedTempFile::new().unwrap();
        for (line, reason) in [
            ("rw_secret".to_owned(), "starts with `sha256:`"),
            ("sha256:abcd owner=a scopes=ask".to_owned(), "64 hexadecimal"),
            (digest.clone(), "no owner"),
            (format!("{digest} owner=a"), "no scopes"),
            (format!("{digest} owner= scopes=ask"), "1 to 1024 bytes"),
            (format!("{digest} owner=a scopes=all"), "unknown scope `all`"),
            (format!("{digest} owner=a scopes=ask rate=0"), "from 1 to 1000000"),
            (
                format!("{digest} owner=a owner=b scopes=ask"),
                "`owner` is in the line twice",
            ),
            (
                format!("{digest} owner=a scopes=ask note=x"),
                "unknown member `note`",
            ),
            (format!("{digest} alice"), "owner=NAME"),
            (good.clone(), "twice"),
        ] {
            std::fs::write(file.path(), format!("# keys\n\n{good}\n{line}\n")).unwrap();
            let error = read(file.path()).unwrap_err().to_string();
            assert!(error.contains("line 4") && error.contains(reason), "{error}");
            assert!(!error.contains("abab") && !error.contains("rw_secret"), "{error}");
        }
        std::fs::write(file.path(), format!("{good}\n")).unwrap();
        assert_eq!(read(file.path()).unwrap().len(), 1);
    }
}
