//! Reads `text/event-stream` by the rules of WHATWG HTML,
//! [Interpreting an event stream](https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation).
//! Knows neither wires nor JSON.

use std::collections::VecDeque;
use std::time::Duration;

use super::lines::{LineEnd, Lines, TooLong};

/// One event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The type; `message` if the stream does not set one.
    pub event: String,
    /// The lines of `data`, with LF between them.
    pub data: String,
    /// The last ID that the stream sent, with this event or before it; empty if it sent none.
    pub id: String,
}

/// A [`Message`] in the buffers of its parser, so that a reader that only looks at it copies
/// nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageRef<'a> {
    pub(super) event: &'a str,
    pub(super) data: &'a str,
    pub(super) id: &'a str,
}

impl MessageRef<'_> {
    fn to_owned(self) -> Message {
        Message {
            event: self.event.to_owned(),
            data: self.data.to_owned(),
            id: self.id.to_owned(),
        }
    }
}

/// Parses any event stream, however its bytes were split.
///
/// Feed it bytes, then take messages until `next` returns `None`, which means that more bytes are
/// needed; the iterator may return messages again after that. An event without its final blank line
/// is not returned, as the standard requires.
///
/// It holds one unfinished line and one unfinished event, each within the limit, and the messages
/// that were not taken yet. Invalid UTF-8 becomes U+FFFD.
///
/// ```
/// use ragwire::wire::sse::EventStream;
///
/// let mut stream = EventStream::default();
/// stream.feed(b"id: 7\ndata: a\r");
/// stream.feed(b"\ndata: b\n\ndata: never finished");
/// let message = stream.next().unwrap().unwrap();
/// assert_eq!((&*message.event, &*message.data, &*message.id), ("message", "a\nb", "7"));
/// assert_eq!(stream.next(), None);
/// ```
#[derive(Debug)]
pub struct EventStream {
    parser: Parser,
    messages: VecDeque<Message>,
    error: Option<EventTooLarge>,
    error_taken: bool,
}

impl EventStream {
    /// The largest frame of our own streams.
    const MAX_EVENT_BYTES: usize = 1024 * 1024;

    /// Creates a parser for one stream with lines and events of at most `max_event_bytes`; the
    /// default is 1 MiB.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            parser: Parser::new(max_event_bytes),
            messages: VecDeque::new(),
            error: None,
            error_taken: false,
        }
    }

    /// Takes the next bytes of the stream. Bytes after an error are ignored.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            match self.parser.next(&mut bytes) {
                Ok(message) => self.messages.extend(message.map(MessageRef::to_owned)),
                Err(TooLong) => {
                    self.error = Some(EventTooLarge {
                        max_bytes: self.parser.event.max_bytes,
                    });
                }
            }
        }
    }

    /// Returns how long the stream asks a reader to wait before it reconnects, if it has set that.
    pub fn retry(&self) -> Option<Duration> {
        self.parser.event.retry
    }

    /// Returns the value of `Last-Event-ID` for a reconnect: the ID of the last finished event,
    /// even one without data. Empty if there is none.
    pub fn last_id(&self) -> &str {
        &self.parser.event.last_id
    }
}

impl Default for EventStream {
    fn default() -> Self {
        Self::new(Self::MAX_EVENT_BYTES)
    }
}

impl Iterator for EventStream {
    type Item = Result<Message, EventTooLarge>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(message) = self.messages.pop_front() {
            return Some(Ok(message));
        }
        let error = self.error.filter(|_| !self.error_taken)?;
        self.error_taken = true;
        Some(Err(error))
    }
}

/// A line or an event of the stream exceeds the limit. The error is permanent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event has more than {max_bytes} bytes")]
#[non_exhaustive]
pub struct EventTooLarge {
    /// The limit in bytes.
    pub max_bytes: usize,
}

impl EventTooLarge {
    /// Returns the stable machine-readable code of this error.
    pub fn code(self) -> &'static str {
        "event_too_large"
    }
}

/// The parser itself. It returns one message at a time, so that a caller may stop in the middle of
/// a chunk.
#[derive(Debug)]
pub(super) struct Parser {
    lines: Lines,
    /// Whether the first line, which may begin with a byte order mark, was read.
    has_begun: bool,
    event: Unfinished,
}

impl Parser {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            lines: Lines::new(LineEnd::Any, max_bytes),
            has_begun: false,
            event: Unfinished {
                max_bytes,
                ..Unfinished::default()
            },
        }
    }

    /// Takes bytes from the front of `bytes` up to the end of the next message, or all of them if
    /// no message is complete. After an error the parser is unusable.
    pub(super) fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<MessageRef<'_>>, TooLong> {
        self.event.clear_returned();
        while !bytes.is_empty() {
            let Some(line) = self.lines.next(bytes)? else {
                break;
            };
            let first = !std::mem::replace(&mut self.has_begun, true);
            let marked = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| first);
            let line = marked.unwrap_or(line);
            if !line.is_empty() {
                self.event.take_line(line)?;
            } else if self.event.dispatch() {
                return Ok(Some(self.event.message()));
            }
        }
        Ok(None)
    }
}

/// The fields of the unfinished event.
#[derive(Debug, Default)]
struct Unfinished {
    max_bytes: usize,
    name: String,
    data: String,
    id: String,
    /// The ID when the last event was finished.
    last_id: String,
    retry: Option<Duration>,
    /// Whether the event was finished and returned, and must be cleared.
    is_returned: bool,
}

/// The largest buffer that is kept for the next event. Only whole answers and large results need
/// more, and few of those arrive in one stream.
const MAX_KEPT_BYTES: usize = 64 * 1024;

impl Unfinished {
    fn take_line(&mut self, line: &[u8]) -> Result<(), TooLong> {
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // Line ends are ASCII and never part of another character, so each line can be repaired by
        // itself.
        match name {
            b"event" => replace(&mut self.name, value),
            b"data" => {
                self.data.push_str(&String::from_utf8_lossy(value));
                if self.data.len() > self.max_bytes {
                    return Err(TooLong);
                }
                self.data.push('\n');
            }
            b"id" if !value.contains(&0) => replace(&mut self.id, value),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                // A number that does not fit is as good as forever.
                let millis = std::str::from_utf8(value)
                    .ok()
                    .and_then(|digits| digits.parse().ok());
                self.retry = Some(Duration::from_millis(millis.unwrap_or(u64::MAX)));
            }
            // A comment has an empty name; other names are unknown fields.
            _ => {}
        }
        Ok(())
    }

    /// Finishes the event. Returns `true` if it is a message: a block without a line of data is not;
    /// one with an empty line of data is.
    fn dispatch(&mut self) -> bool {
        self.last_id.clone_from(&self.id);
        self.is_returned = self.data.pop().is_some();
        if !self.is_returned {
            self.name.clear();
        }
        self.is_returned
    }

    fn message(&self) -> MessageRef<'_> {
        MessageRef {
            event: if self.name.is_empty() {
                "message"
            } else {
                &self.name
            },
            data: &self.data,
            id: &self.id,
        }
    }

    fn clear_returned(&mut self) {
        if std::mem::take(&mut self.is_returned) {
            self.name.clear();
            self.data.clear();
            self.data.shrink_to(MAX_KEPT_BYTES);
        }
    }
}

fn replace(field: &mut String, value: &[u8]) {
    field.clear();
    field.push_str(&String::from_utf8_lossy(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(type, data, id)` of each message.
    type Row<'a> = (&'a str, &'a str, &'a str);
    /// Name, bytes, messages, and `retry` in milliseconds.
    type Case<'a> = (&'a str, &'a [u8], &'a [Row<'a>], Option<u64>);

    fn parse(bytes: &[u8], sizes: impl Iterator<Item = usize>) -> (Vec<Message>, EventStream) {
        let (mut stream, mut rest) = (EventStream::default(), bytes);
        for size in sizes {
            let (first, second) = rest.split_at(size.min(rest.len()));
            stream.feed(first);
            rest = second;
        }
        stream.feed(rest);
        (stream.by_ref().map(Result::unwrap).collect(), stream)
    }

    #[test]
    fn the_cases_of_web_platform_tests() {
        // Named after the files in `eventsource/` of web-platform-tests. The bytes, and the cases
        // with other names, are our own.
        let cases: &[Case<'_>] = &[
            ("format-bom", b"\xef\xbb\xbfdata:1\n\n\xef\xbb\xbfdata:2\n\ndata:3\n\n", &[("message", "1", ""), ("message", "3", "")], None),
            ("format-bom-2", b"\xef\xbb\xbf\xef\xbb\xbfdata:1\n\ndata:2\n\ndata:3\n\n", &[("message", "2", ""), ("message", "3", "")], None),
            ("format-comments", b"data:1\n:\0\n:\r\ndata:2\n: long comment\rdata:3\n:data:fail\r:x\ndata:4\n\n", &[("message", "1\n2\n3\n4", "")], None),
            ("format-data-before-final-empty-line", b"retry:1000\ndata:test1\n\nid:test\ndata:test2", &[("message", "test1", "")], Some(1000)),
            ("format-field-data", b"data:\n\ndata\ndata\n\ndata:test\n\n", &[("message", "", ""), ("message", "\n", ""), ("message", "test", "")], None),
            ("format-field-event", b"event:test\ndata:x\n\ndata:x\n\n", &[("test", "x", ""), ("message", "x", "")], None),
            ("format-field-event-empty", b"event: \ndata:data\n\n", &[("message", "data", "")], None),
            ("format-field-id", b"id: \xe2\x80\xa6\ndata:1\n\ndata:2\n\n", &[("message", "1", "\u{2026}"), ("message", "2", "\u{2026}")], None),
            ("format-field-id-2", b"id\ndata:1\n\nid:4\ndata:2\n\nid\ndata:3\n\n", &[("message", "1", ""), ("message", "2", "4"), ("message", "3", "")], None),
            ("format-field-id-3", b"id:1\ndata:1\n\nid\ndata:2\n\n", &[("message", "1", "1"), ("message", "2", "")], None),
            ("format-field-id-null", b"id:1\ndata:1\n\nid:\0\ndata:2\n\nid:1\0\ndata:3\n\n", &[("message", "1", "1"), ("message", "2", "1"), ("message", "3", "1")], None),
            ("format-field-parsing", b"data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n", &[("message", "\0\n 2\n1\n3\n\n4", "")], None),
            ("format-field-retry", b"retry:3000\ndata:x\n\n", &[("message", "x", "")], Some(3000)),
            ("format-field-retry-bogus", b"retry:3000\nretry:1000x\nretry:-1\nretry: \nretry:1.5\ndata:x\n\n", &[("message", "x", "")], Some(3000)),
            ("format-field-retry-empty", b"retry\ndata:test\n\n", &[("message", "test", "")], None),
            ("format-field-retry-huge", b"retry:99999999999999999999\ndata:x\n\n", &[("message", "x", "")], Some(u64::MAX)),
            ("format-field-unknown", b"data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\n\n", &[("message", "test\n", "")], None),
            ("format-leading-space", b"data:\ttest\rdata: \ndata:test\n\n", &[("message", "\ttest\n\ntest", "")], None),
            ("format-leading-space-two", b"data:  test\n\n", &[("message", " test", "")], None),
            ("format-mime-bogus", b"data:ok\r\n\r\n", &[("message", "ok", "")], None),
            ("format-newlines", b"data:test\r\ndata\ndata:test\r\n\r\n", &[("message", "test\n\ntest", "")], None),
            ("format-newlines-cr", b"data:a\r\rdata:b\r\r", &[("message", "a", ""), ("message", "b", "")], None),
            ("format-null-character", b"data:\0\n\n\n\n", &[("message", "\0", "")], None),
            ("format-utf-8", "data:ok\u{2026}\n\n".as_bytes(), &[("message", "ok\u{2026}", "")], None),
            ("format-utf-8-invalid", b"data:\xe2\x80\ndata:\xff\n\n", &[("message", "\u{fffd}\n\u{fffd}", "")], None),
            ("event-data", b"data:msg\ndata: msg\n\n:\nfalsefield:msg\n\nfalsefield:msg\nData:data\n\ndata\n\ndata:end\n\n", &[("message", "msg\nmsg", ""), ("message", "", ""), ("message", "end", "")], None),
            ("no-data", b"event:test\nid:3\n\n\n\n", &[], None),
            ("nothing", b"", &[], None),
        ];
        for (name, bytes, rows, retry) in cases {
            for at in 0..=bytes.len() {
                for sizes in [vec![at], vec![1; at]] {
                    let (messages, stream) = parse(bytes, sizes.into_iter());
                    let read: Vec<Row<'_>> = messages
                        .iter()
                        .map(|message| (&*message.event, &*message.data, &*message.id))
                        .collect();
                    assert_eq!(read, *rows, "{name}, cut at {at}");
                    assert_eq!(stream.retry(), retry.map(Duration::from_millis), "{name}");
                }
            }
        }
        assert_eq!(cases.len(), 28);
    }

    #[test]
    fn an_event_without_data_still_counts_as_received() {
        let (messages, stream) = parse(b"id:3\n\nid:4\n", [].into_iter());
        assert_eq!((messages.len(), stream.last_id()), (0, "3"));
    }

    #[test]
    fn a_line_and_an_event_are_bounded() {
        let error = Err(EventTooLarge { max_bytes: 10 });
        for (bytes, expected) in [
            (&b"data: 1234\n\n"[..], vec!["1234"]),
            (b"data: 12345\n\n", vec![]),
            (b": 123456789", vec![]),
            (b"data: 1\n\n01234567890", vec!["1"]),
            (b"data:12345\ndata:1234\n\n", vec!["12345\n1234"]),
            (b"data:12345\ndata:12345\n\n", vec![]),
        ] {
            for size in [bytes.len(), 1] {
                let mut stream = EventStream::new(10);
                bytes.chunks(size).for_each(|chunk| stream.feed(chunk));
                stream.feed(b"data: late\n\n");
                let items: Vec<_> = stream.by_ref().collect();
                let (last, messages) = items.split_last().unwrap();
                if last.is_err() {
                    assert_eq!(last, &error);
                    let data: Vec<_> = messages.iter().flatten().map(|message| &*message.data).collect();
                    assert_eq!(data, expected);
                } else {
                    assert_eq!(messages.len(), expected.len());
                }
                assert_eq!(stream.next(), None, "an error is returned once");
            }
        }
        assert_eq!(EventTooLarge { max_bytes: 1 }.code(), "event_too_large");
    }
}
