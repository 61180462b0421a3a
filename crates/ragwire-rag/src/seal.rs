//! Checksums of records in files: SQLite checks the structure of its pages, but not their content.

/// Appends a checksum to a record.
pub(crate) fn seal(record: Vec<u8>) -> Vec<u8> {
    seal_under(b"", record)
}

/// Returns a record without its checksum, unless the record has changed.
pub(crate) fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    unseal_under(b"", sealed)
}

/// Appends a checksum of a record and its key: under another key the record is damaged.
pub(crate) fn seal_under(key: &[u8], mut record: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(key, &record);
    record.extend(checksum.to_le_bytes());
    record
}

/// Returns a record without its checksum, unless the record or its key has changed.
pub(crate) fn unseal_under<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (record, written) = sealed.split_last_chunk::<4>()?;
    (checksum(key, record) == u32::from_le_bytes(*written)).then_some(record)
}

fn checksum(key: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(key);
    hasher.update(record);
    hasher.finalize()
}
