//! A consistency check of the frames that readers received of one turn, on any hosts and over any
//! number of connections.
//!
//! A reader's [`History`] records what it asked for and what it received, byte by byte. [`judge`]
//! checks that one turn explains all histories:
//!
//! - Every visit begins at the requested index, without a gap and without a repetition.
//! - A frame has the same bytes under the same index for every reader, so each reader received a
//!   part of the same turn.
//! - The turn has at most one end, and no reader receives a frame after it.
//! - A reader that missed frames got a [`Notice`], as a status or as a failure completion, and
//!   never receives a frame that was reported as lost.
//! - If the log promises durability, every frame that any reader received is still stored at the
//!   end ([`retains`]).
//!
//! The check does not depend on ragwire, because it must not rely on what it checks. Of a frame it
//! knows the index, the bytes, and whether it is an end.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// A frame that a reader received.
#[derive(Clone, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// The index on the wire.
    pub index: u64,
    /// The frame without its index: the same bytes on every wire with numbered frames.
    pub bytes: Vec<u8>,
    /// The end, if the frame is one.
    pub end: Option<End>,
    /// Whether it is a snapshot, which replaces all frames up to its index.
    pub is_snapshot: bool,
}

/// The end of a stream, by its last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The answer is complete.
    Completed,
    /// The turn was stopped.
    Stopped,
    /// The turn failed with this code.
    Failed(String),
}

/// One connection of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The requested index.
    pub from: u64,
    /// The received frames, in order.
    pub frames: Vec<ReceivedFrame>,
    /// The end of the connection.
    pub ended: VisitEnd,
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitEnd {
    /// The response was received completely.
    Complete,
    /// The connection broke, could not be opened, or was closed by the reader.
    Disconnected,
    /// Nothing was left to read (status 204).
    NothingLeft,
    /// The request was refused with this status.
    Refused(u16),
}

/// Everything that one reader received of the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The name of the reader, for messages.
    pub reader: String,
    /// Its connections, in order. Each asks for the frame after the last received one.
    pub visits: Vec<Visit>,
}

/// A notice that a reader can receive instead of frames. Each is legal only where the test allows
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Notice {
    /// Status 404: the turn does not exist or has been evicted.
    Unknown,
    /// Status 409 or the code `lost`: frames that the reader has received are missing.
    Lost,
    /// Status 410 or the code `gone`: the next frames have been dropped.
    Gone,
    /// The next frames have been dropped, and a snapshot replaces them.
    Snapshot,
    /// Status 416: the turn has not produced the frame yet.
    Ahead,
    /// Status 503 or the code `unavailable`: the turn cannot be reached now.
    Unavailable,
    /// The code `interrupted`: the host that ran the turn has died. Normally that is the end of the
    /// turn, the same for all readers. Where the log can lose frames, and with them the true end,
    /// the test allows it here, and it is only a notice to the reader that receives it.
    Interrupted,
}

/// The facts about the turn that follow from the histories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The index of the turn's end, and the end.
    pub end: Option<(u64, End)>,
    /// The number of different frames that the readers received, the end included.
    pub frames: usize,
    /// The notices, each with the name of its reader.
    pub notices: Vec<(String, Notice)>,
}

/// The reason why no turn explains the histories.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A history contradicts itself: the reader asks for another frame than the next one.
    InvalidHistory(String),
    /// The first frame of a visit is not the requested one.
    WrongStart {
        /// The reader.
        reader: String,
        /// The requested index.
        requested: u64,
        /// The received index.
        received: u64,
    },
    /// A frame is missing.
    Gap {
        /// The reader.
        reader: String,
        /// The missing index.
        missing: u64,
    },
    /// A frame was received twice, or out of order.
    Repeated {
        /// The reader.
        reader: String,
        /// The index of the frame.
        index: u64,
    },
    /// Two readers, or one reader twice, received different bytes under the same index.
    Difference {
        /// The index.
        index: u64,
        /// One reader.
        one: String,
        /// The other reader.
        other: String,
    },
    /// A frame was received after an end, in the same stream or in a later visit.
    AfterEnd {
        /// The reader.
        reader: String,
        /// The index of the frame.
        index: u64,
    },
    /// A reader received a frame after the end that another reader received.
    BeyondEnd {
        /// The reader.
        reader: String,
        /// The index of the frame.
        index: u64,
        /// The index of the other reader's end.
        end: u64,
    },
    /// A response was complete, but its stream had no end.
    NoEnd {
        /// The reader.
        reader: String,
    },
    /// "Nothing left" although frames are left.
    SilentLoss {
        /// The reader.
        reader: String,
        /// The requested index.
        from: u64,
    },
    /// A reader received a notice that the test does not allow.
    UnexpectedNotice {
        /// The reader.
        reader: String,
        /// The notice.
        notice: Notice,
    },
    /// A status that no reader can expect.
    UnexpectedStatus {
        /// The reader.
        reader: String,
        /// The status.
        status: u16,
    },
    /// A reader received a frame that had been reported to it as lost or gone.
    Revived {
        /// The reader.
        reader: String,
        /// The index of the frame.
        index: u64,
    },
    /// The last thing that a reader received is neither an end nor a notice.
    Unfinished {
        /// The reader.
        reader: String,
    },
    /// A frame that a reader received is no longer stored.
    Vanished {
        /// The index of the frame.
        index: u64,
        /// A reader that received it.
        reader: String,
    },
}

/// Checks that one turn explains all histories, and returns what they show of it. `allowed` lists
/// the notices that readers may receive.
///
/// # Errors
///
/// The first [`Violation`] that is found.
pub fn judge(histories: &[History], allowed: &[Notice]) -> Result<Verdict, Violation> {
    for history in histories {
        check_alone(history, allowed)?;
    }
    let turn = Turn::of(histories, allowed)?;
    let mut notices = Vec::new();
    for history in histories {
        for visit in &history.visits {
            turn.contains(&history.reader, visit)?;
            let snapshots = visit.frames.iter().filter(|frame| frame.is_snapshot);
            let snapshots = snapshots.map(|_| Notice::Snapshot);
            for notice in snapshots.chain(visit_notice(&history.reader, visit, allowed)?) {
                if !allowed.contains(&notice) {
                    return Err(Violation::UnexpectedNotice {
                        reader: history.reader.clone(),
                        notice,
                    });
                }
                notices.push((history.reader.clone(), notice));
            }
        }
        check_finished(history)?;
    }
    Ok(Verdict {
        end: turn
            .end
            .and_then(|end| Some((end, turn.frames[&end].0.end.clone()?))),
        frames: turn.frames.len(),
        notices,
    })
}

/// Checks that every frame that any reader received is still stored: `last` is a reader that came
/// after all others and read from the first frame on. A log promises that if it acknowledges a
/// frame only when the frame is on the disk.
///
/// # Errors
///
/// [`Violation::Vanished`], or a violation of all histories together.
pub fn retains(histories: &[History], last: &History) -> Result<(), Violation> {
    let mut all = histories.to_vec();
    all.push(last.clone());
    let turn = Turn::of(&all, &[])?;
    let stored: Vec<u64> = frames(last)
        .filter(|frame| !is_notice(frame, &[]))
        .map(|frame| frame.index)
        .collect();
    for (index, (_, reader)) in &turn.frames {
        if stored.binary_search(index).is_err() {
            return Err(Violation::Vanished {
                index: *index,
                reader: (*reader).to_owned(),
            });
        }
    }
    Ok(())
}

/// The turn as all readers together received it.
struct Turn<'a> {
    /// The frames by index, each with a reader that received it.
    frames: BTreeMap<u64, (&'a ReceivedFrame, &'a str)>,
    end: Option<u64>,
}

impl<'a> Turn<'a> {
    fn of(histories: &'a [History], allowed: &[Notice]) -> Result<Self, Violation> {
        let mut frames_seen: BTreeMap<u64, (&ReceivedFrame, &str)> = BTreeMap::new();
        for history in histories {
            // A notice is not a frame of the turn: each reader gets its own.
            let is_frame = |frame: &&ReceivedFrame| !is_notice(frame, allowed) && !frame.is_snapshot;
            for frame in frames(history).filter(is_frame) {
                let (first, who) = *frames_seen.entry(frame.index).or_insert((frame, &history.reader));
                if first != frame {
                    return Err(Violation::Difference {
                        index: frame.index,
                        one: who.to_owned(),
                        other: history.reader.clone(),
                    });
                }
            }
        }
        let end = frames_seen
            .iter()
            .find_map(|(index, (frame, _))| frame.end.is_some().then_some(*index));
        if let Some(end) = end {
            let beyond = frames_seen.range(end + 1..).next();
            if let Some((index, (_, reader))) = beyond {
                return Err(Violation::BeyondEnd {
                    reader: (*reader).to_owned(),
                    index: *index,
                    end,
                });
            }
        }
        Ok(Self {
            frames: frames_seen,
            end,
        })
    }

    /// Checks that "nothing left" was reported only for the index after the end.
    fn contains(&self, reader: &str, visit: &Visit) -> Result<(), Violation> {
        let is_after_end = self.end.is_some_and(|end| visit.from == end + 1);
        if visit.ended == VisitEnd::NothingLeft && !is_after_end {
            return Err(Violation::SilentLoss {
                reader: reader.to_owned(),
                from: visit.from,
            });
        }
        Ok(())
    }
}

/// Checks one history without the others.
fn check_alone(history: &History, allowed: &[Notice]) -> Result<(), Violation> {
    let reader = || history.reader.clone();
    let mut expected = history.visits.first().map_or(0, |visit| visit.from);
    // The index from which on the frames were reported as lost.
    let mut lost_from: Option<u64> = None;
    let mut has_end = false;
    for visit in &history.visits {
        if visit.from != expected {
            return Err(Violation::InvalidHistory(format!(
                "{} asks for {} instead of {expected}",
                history.reader, visit.from
            )));
        }
        let has_body = matches!(visit.ended, VisitEnd::Complete | VisitEnd::Disconnected);
        if !has_body && !visit.frames.is_empty() {
            return Err(Violation::InvalidHistory(format!(
                "{}: frames in {:?}",
                history.reader, visit.ended
            )));
        }
        for (offset, frame) in visit.frames.iter().enumerate() {
            if has_end || offset > 0 && visit.frames[offset - 1].end.is_some() {
                return Err(Violation::AfterEnd {
                    reader: reader(),
                    index: frame.index,
                });
            }
            if frame.is_snapshot && frame.index >= expected {
                expected = frame.index + 1;
                continue;
            }
            if frame.index < expected && offset > 0 {
                return Err(Violation::Repeated {
                    reader: reader(),
                    index: frame.index,
                });
            }
            if frame.index != expected {
                return Err(match offset {
                    0 => Violation::WrongStart {
                        reader: reader(),
                        requested: expected,
                        received: frame.index,
                    },
                    _ => Violation::Gap {
                        reader: reader(),
                        missing: expected,
                    },
                });
            }
            if is_notice(frame, allowed) {
                // The reader does not have the frame with that index and may ask again.
                continue;
            }
            if lost_from.is_some_and(|index| frame.index >= index) {
                return Err(Violation::Revived {
                    reader: reader(),
                    index: frame.index,
                });
            }
            expected += 1;
        }
        let last = visit.frames.last();
        if visit.ended == VisitEnd::Complete && last.is_none_or(|frame| frame.end.is_none()) {
            return Err(Violation::NoEnd { reader: reader() });
        }
        has_end |= last.is_some_and(|frame| frame.end.is_some() && !is_notice(frame, allowed));
        let permanent = [Notice::Lost, Notice::Gone];
        if visit_notice(&history.reader, visit, allowed)?.is_some_and(|notice| permanent.contains(&notice)) {
            lost_from.get_or_insert(expected);
        }
    }
    Ok(())
}

/// Checks that a history ends with an end or with a notice.
fn check_finished(history: &History) -> Result<(), Violation> {
    let unfinished = || Violation::Unfinished {
        reader: history.reader.clone(),
    };
    let last = history.visits.last().ok_or_else(unfinished)?;
    match last.ended {
        VisitEnd::NothingLeft | VisitEnd::Refused(_) => Ok(()),
        // An end counts even if the connection breaks after it.
        VisitEnd::Complete | VisitEnd::Disconnected => match last.frames.last() {
            Some(frame) if frame.end.is_some() => Ok(()),
            _ => Err(unfinished()),
        },
    }
}

fn frames(history: &History) -> impl Iterator<Item = &ReceivedFrame> {
    history.visits.iter().flat_map(|visit| &visit.frames)
}

/// Returns whether a frame is a notice and not part of the turn.
fn is_notice(frame: &ReceivedFrame, allowed: &[Notice]) -> bool {
    frame_notice(frame, allowed).is_some()
}

fn frame_notice(frame: &ReceivedFrame, allowed: &[Notice]) -> Option<Notice> {
    match &frame.end {
        Some(End::Failed(code)) => match &**code {
            "lost" => Some(Notice::Lost),
            "gone" => Some(Notice::Gone),
            "unavailable" => Some(Notice::Unavailable),
            "interrupted" if allowed.contains(&Notice::Interrupted) => Some(Notice::Interrupted),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the notice that a visit ended with, if it did.
fn visit_notice(reader: &str, visit: &Visit, allowed: &[Notice]) -> Result<Option<Notice>, Violation> {
    match visit.ended {
        VisitEnd::Refused(404) => Ok(Some(Notice::Unknown)),
        VisitEnd::Refused(409) => Ok(Some(Notice::Lost)),
        VisitEnd::Refused(410) => Ok(Some(Notice::Gone)),
        VisitEnd::Refused(416) => Ok(Some(Notice::Ahead)),
        VisitEnd::Refused(503) => Ok(Some(Notice::Unavailable)),
        VisitEnd::Refused(status) => Err(Violation::UnexpectedStatus {
            reader: reader.to_owned(),
            status,
        }),
        VisitEnd::Complete | VisitEnd::Disconnected | VisitEnd::NothingLeft => {
            Ok(visit.frames.last().and_then(|frame| frame_notice(frame, allowed)))
        }
    }
}

impl History {
    /// Creates the history of a reader that has received nothing yet.
    pub fn new(reader: impl Into<String>) -> Self {
        Self {
            reader: reader.into(),
            visits: Vec::new(),
        }
    }

    /// Returns the index after the last received frame, where the next visit begins.
    pub fn next(&self) -> u64 {
        let received = frames(self).filter(|frame| !is_notice(frame, &[]));
        let first = self.visits.first().map_or(0, |visit| visit.from);
        received.last().map_or(first, |frame| frame.index + 1)
    }
}

impl ReceivedFrame {
    /// Parses a line of the wire of JSON lines, without its LF.
    ///
    /// # Errors
    ///
    /// A description, if it is not a frame.
    pub fn from_line(line: &[u8]) -> Result<Self, String> {
        let value = object(line)?;
        let index = value["index"].as_u64().ok_or("no index")?;
        // The index comes first, so the rest is what the other wire sends.
        let start = format!("{{\"index\":{index},");
        let rest = line
            .strip_prefix(start.as_bytes())
            .ok_or("the index does not come first")?;
        Ok(Self::new(index, [b"{", rest].concat(), &value))
    }

    /// Parses the `id` and the `data` of a server-sent event.
    ///
    /// # Errors
    ///
    /// A description, if it is not a frame.
    pub fn from_event(id: &str, data: &[u8]) -> Result<Self, String> {
        let index = id.parse().map_err(|_| format!("id {id:?}"))?;
        Ok(Self::new(index, data.to_vec(), &object(data)?))
    }

    fn new(index: u64, bytes: Vec<u8>, value: &Value) -> Self {
        let end = value.get("end").filter(|_| value.get("event").is_none());
        let end = end.and_then(Value::as_str).map(|end| match end {
            "completed" => End::Completed,
            "stopped" => End::Stopped,
            _ => End::Failed(value["error"]["code"].as_str().unwrap_or(end).to_owned()),
        });
        let is_snapshot = value.get("event").is_none() && value["snapshot"].is_object();
        Self {
            index,
            bytes,
            end,
            is_snapshot,
        }
    }
}

fn object(bytes: &[u8]) -> Result<Value, String> {
    match serde_json::from_slice(bytes) {
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(format!("not an object: {}", String::from_utf8_lossy(bytes))),
    }
}

impl fmt::Debug for ReceivedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.index, String::from_utf8_lossy(&self.bytes))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Violation {}
