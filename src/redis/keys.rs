//! Keys that contain an owner.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Returns the key `<prefix><kind>:<hash of owner and name>`. Owners and names are hashed, since
/// they may be long and confidential.
pub(crate) fn hashed(prefix: &str, kind: &str, owner: &str, name: &str) -> String {
    let mut hash = Sha256::new();
    // The length separates the owner from the name.
    hash.update((owner.len() as u64).to_be_bytes());
    hash.update(owner);
    hash.update(name);
    let mut key = format!("{prefix}{kind}:");
    for byte in hash.finalize() {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn different_owners_and_names_have_different_keys() {
        let pairs = [("bc", "a"), ("c", "ab"), ("abc", ""), ("", "abc"), ("a", "bc")];
        let keys: HashSet<String> = pairs
            .map(|(owner, name)| hashed("p:", "lane", owner, name))
            .into();
        assert_eq!(keys.len(), pairs.len());
        assert!(keys.iter().all(|key| key.len() == "p:lane:".len() + 64));
    }
}
