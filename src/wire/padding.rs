//! Bytes that readers skip, so that the size of what is sent does not show the length of a text.

use bytes::BytesMut;

use super::Encoder;
use crate::order::Phase;

/// The least padding that every wire with padding can write: a comment without a word.
const MIN_BYTES: usize = 4;

impl Encoder {
    /// Appends padding that makes `written` bytes a multiple of `block`: readers skip it. Appends
    /// nothing after the end, and on a wire or in a phase without room for padding.
    pub fn pad(&mut self, written: usize, block: usize, out: &mut BytesMut) {
        if self.order.phase() == Phase::Ended || block == 0 || written == 0 {
            return;
        }
        let mut bytes = (block - written % block) % block;
        if bytes == 0 {
            return;
        }
        while bytes < MIN_BYTES {
            bytes += block;
        }
        self.spelling.pad(self.order.phase(), bytes, out);
    }
}

/// Appends a comment of server-sent events of `bytes` bytes, with `end` behind it.
fn comment(bytes: usize, end: &[u8], out: &mut BytesMut) {
    out.extend_from_slice(b":");
    out.resize(out.len() + bytes.saturating_sub(1 + end.len()), b' ');
    out.extend_from_slice(end);
}

/// Appends a comment and the blank line that ends an event.
pub(super) fn event(bytes: usize, out: &mut BytesMut) {
    comment(bytes, b"\n\n", out);
}

/// Appends a comment alone.
pub(super) fn line(bytes: usize, out: &mut BytesMut) {
    comment(bytes, b"\n", out);
}

/// Appends spaces in front of the next line, for readers that take every line for JSON.
pub(super) fn spaces(bytes: usize, out: &mut BytesMut) {
    out.resize(out.len() + bytes, b' ');
}

/// Appends blank lines.
pub(super) fn blank(bytes: usize, out: &mut BytesMut) {
    out.resize(out.len() + bytes, b'\n');
}
