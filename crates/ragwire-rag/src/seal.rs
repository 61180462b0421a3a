//! Checksums of records in files: SQLite checks the structure of its pages, but not their content.

/// Appends a checksum to a record.
pub(crate) fn seal(mut record: Vec<u8>) -> Vec<u8> {
    let checksum = crc32fast::hash(&record);
    record.extend(checksum.to_le_bytes());
    record
}

/// Returns a record without its checksum, unless the record has changed.
pub(crate) fn unseal(sealed: &[u8]) -> Option<&[u8]> {
    let (record, checksum) = sealed.split_last_chunk::<4>()?;
    (crc32fast::hash(record) == u32::from_le_bytes(*checksum)).then_some(record)
}
