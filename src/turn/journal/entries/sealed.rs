//! The frames of a turn that has ended, as lines of JSON in one piece of memory. As records, each
//! event takes the space of the largest one, and each string an allocation.

use std::collections::VecDeque;

use bytes::BytesMut;

use super::super::record::{Record, line_encoder};

#[derive(Debug)]
pub(super) struct Sealed {
    /// The index of the first frame.
    base: u64,
    lines: Box<[u8]>,
    /// Where each line ends.
    ends: Box<[u32]>,
}

impl Sealed {
    /// Encodes the frames from the one with the index `base` on; `None` if they are too large.
    pub(super) fn new(base: u64, records: &VecDeque<(Record, usize)>) -> Option<Self> {
        let (mut encoder, mut lines) = (line_encoder(base), BytesMut::new());
        let mut ends = Vec::with_capacity(records.len());
        for (record, _) in records {
            // Cannot fail: the queue has checked every event before.
            record.encode(&mut encoder, &mut lines).ok()?;
            ends.push(u32::try_from(lines.len()).ok()?);
        }
        Some(Self {
            base,
            lines: lines[..].into(),
            ends: ends.into(),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the size that the limits count.
    pub(super) fn bytes(&self) -> usize {
        self.lines.len() + size_of_val(&*self.ends)
    }

    /// Decodes the frames from the one at the position `skip` on, with their sizes as records.
    pub(super) fn iter(&self, skip: usize) -> impl Iterator<Item = (Record, usize)> {
        let skip = skip.min(self.ends.len());
        let mut from = skip.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        let frames = (self.base + skip as u64..).zip(&self.ends[skip..]);
        frames.map_while(move |(index, end)| {
            let line = &self.lines[std::mem::replace(&mut from, *end as usize)..*end as usize];
            // Never `None`: the line was written here.
            let record = Record::from_line(index, line)?;
            let bytes = record.bytes();
            Some((record, bytes))
        })
    }
}
