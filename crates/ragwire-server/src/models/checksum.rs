//! Whether a file is the one that was published: its SHA-256, computed once and remembered beside it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

/// Length of a SHA-256 in hexadecimal digits.
const DIGITS: usize = 64;
/// Read at a time: what hides the cost of a call.
const CHUNK: usize = 1 << 20;

/// Whether a text is a SHA-256 as the hub writes it.
pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The SHA-256 of a file, of gigabytes: seconds.
pub(super) fn of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let (mut hash, mut chunk) = (Sha256::new(), vec![0; CHUNK]);
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            read => hash.update(&chunk[..read]),
        }
    }
}

/// Whether this file, as it is now, was found to be the one that was published.
pub(super) fn is_remembered(path: &Path, sha256: &str) -> bool {
    stamp(path, sha256).is_ok_and(|stamp| fs::read_to_string(note(path)).is_ok_and(|noted| noted == stamp))
}

/// Remembers that it was. Where that fails, it is computed again.
pub(super) fn remember(path: &Path, sha256: &str) -> io::Result<()> {
    fs::write(note(path), stamp(path, sha256)?)
}

/// Forgets it.
pub(super) fn forget(path: &Path) {
    let _ = fs::remove_file(note(path));
}

/// Beside the file itself, not beside a link to it.
fn note(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".verified");
    path.with_file_name(name)
}

/// The checksum, and what changes when somebody writes into the file.
fn stamp(path: &Path, sha256: &str) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    let modified = metadata
        .modified()?
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Ok(format!("{sha256} {} {}\n", metadata.len(), modified.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_holds_until_the_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "abc").unwrap();
        let sha256 = of(&path).unwrap();
        assert_eq!(
            sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(
            is_sha256(&sha256)
                && !is_sha256("ba78")
                && !is_sha256(&sha256.to_uppercase())
                && !is_sha256(&"../".repeat(22)[..64])
        );
        assert!(!is_remembered(&path, &sha256));
        remember(&path, &sha256).unwrap();
        assert!(is_remembered(&path, &sha256) && !is_remembered(&path, &"0".repeat(64)));
        fs::write(&path, "abcd").unwrap();
        assert!(!is_remembered(&path, &sha256));
        remember(&path, &sha256).unwrap();
        forget(&path);
        assert!(!is_remembered(&path, &sha256));
        assert!(of(&folder.path().join("none")).is_err());
    }
}
