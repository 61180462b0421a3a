//! A judge of what readers saw of one turn, on whatever hosts and however often they came back.
//!
//! Each reader's [`History`] is what it asked for and what it was given, byte by byte. [`judge`] says whether one turn can have been
//! the origin of all of them:
//!
//! - every visit begins where it was asked to, without a gap and without a repetition;
//! - a frame has the same bytes under the same index for every reader, so that each saw a prefix of the same turn;
//! - the turn has at most one end, and nothing after it for anybody;
//! - whoever missed something was told so, by a status or by a failure completion, and nobody gets what it was told is lost;
//! - what was given to anybody is still there at the end ([`keeps`]), where the log promises that.
//!
//! It deliberately does not know ragwire, nor how a reader is connected; of a frame it knows its index, its bytes, and whether it is
//! an end.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// What a reader was given under one index.
#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    /// As the wire said it.
    pub index: u64,
    /// The frame without its index: the same on every wire that has one.
    pub bytes: Vec<u8>,
    /// Only where it is an end.
    pub end: Option<End>,
    /// Whether it stands for all frames up to its index, which the log has dropped.
    pub is_snapshot: bool,
}

/// How a stream ended, by its last frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is the whole answer.
    Completed,
    /// Somebody stopped the turn.
    Stopped,
    /// With this code.
    Failed(String),
}

/// One connection of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The index it asked for.
    pub from: u64,
    /// What it was given, in this order.
    pub frames: Vec<Seen>,
    /// What ended it.
    pub ended: Ended,
}

/// What ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The response came to its regular end.
    Whole,
    /// The connection broke, could not be made, or the reader left by itself.
    Cut,
    /// There is nothing left to read: 204.
    Nothing,
    /// Refused with this status.
    Refused(u16),
}

/// Everything that one reader saw of the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Whose, for the message.
    pub reader: String,
    /// Its connections, in this order. Each asks for the frame after the last one that it has.
    pub visits: Vec<Visit>,
}

/// What a reader can be told instead of frames. Each is legal only where the test allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// Status 404: there is no such turn, or not any more.
    Unknown,
    /// Status 409 or the code `lost`: what it has seen is not there any more.
    Lost,
    /// Status 410 or the code `gone`: what comes next was dropped.
    Gone,
    /// What comes next was dropped, and a snapshot stands for it.
    Snapshot,
    /// Status 416: the turn has not come that far.
    Ahead,
    /// Status 503 or the code `unavailable`: nothing can be said now.
    Unavailable,
    /// The code `interrupted`: the host that answered is gone. That is an end of the turn, the same for all; only where the log itself can lose
    /// frames, and with them the true end, it is allowed here and no more than a word to whoever is told it.
    Interrupted,
}

/// What the histories say of the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The turn's own end, and its index.
    pub end: Option<(u64, End)>,
    /// How many of its frames somebody saw, the end too.
    pub frames: usize,
    /// Each time that a reader was told something instead of a frame.
    pub told: Vec<(String, Told)>,
}

/// Why no turn can have been the origin of these histories.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The record itself is none: a reader asks for something else than the next frame.
    BadRecord(String),
    /// The first frame of a visit is not the one asked for.
    WrongStart {
        /// Whose.
        reader: String,
        /// Asked for.
        asked: u64,
        /// Given.
        given: u64,
    },
    /// A frame is missing.
    Gap {
        /// Whose.
        reader: String,
        /// The index that was missing.
        missing: u64,
    },
    /// A frame came twice, or out of its order.
    Repeated {
        /// Whose.
        reader: String,
        /// Its index.
        index: u64,
    },
    /// Two readers, or one reader twice, were given other bytes under the same index.
    Differs {
        /// The index.
        index: u64,
        /// Who saw the one.
        one: String,
        /// Who saw the other.
        other: String,
    },
    /// Something came after an end, in the same stream or in a later visit.
    AfterEnd {
        /// Whose.
        reader: String,
        /// Where.
        index: u64,
    },
    /// Somebody was given a frame where the turn was over for somebody else.
    BeyondEnd {
        /// Whose.
        reader: String,
        /// Which frame.
        index: u64,
        /// The end of the other.
        end: u64,
    },
    /// A response came to its regular end without the stream's.
    NoEnd {
        /// Whose.
        reader: String,
    },
    /// "Nothing left" where something is.
    SilentLoss {
        /// Whose.
        reader: String,
        /// Asked for.
        from: u64,
    },
    /// A reader was told something that it must not be told here.
    Undue {
        /// Who.
        reader: String,
        /// What.
        told: Told,
    },
    /// A status that means nothing here.
    Status {
        /// Whose.
        reader: String,
        /// Which.
        status: u16,
    },
    /// A reader was given what it had been told is lost or gone.
    Revived {
        /// Whose.
        reader: String,
        /// Which frame.
        index: u64,
    },
    /// The last thing a reader saw is neither an end nor a word about a loss.
    Unfinished {
        /// Whose.
        reader: String,
    },
    /// A frame that somebody was given is not there any more, and nobody else can have it.
    Vanished {
        /// Its index.
        index: u64,
        /// Who had it.
        reader: String,
    },
}

/// Whether one turn can have been the origin of all these histories, and what it was then. `allowed` is what readers may be told
/// instead of frames.
///
/// # Errors
///
/// The first [`Violation`] that is found.
pub fn judge(histories: &[History], allowed: &[Told]) -> Result<Verdict, Violation> {
    for history in histories {
        alone(history, allowed)?;
    }
    let turn = Turn::of(histories, allowed)?;
    let mut told = Vec::new();
    for history in histories {
        for visit in &history.visits {
            turn.contains(&history.reader, visit)?;
            let snapshots = visit.frames.iter().filter(|seen| seen.is_snapshot);
            let words = snapshots.map(|_| Told::Snapshot);
            for word in words.chain(told_by(&history.reader, visit, allowed)?) {
                if !allowed.contains(&word) {
                    return Err(Violation::Undue {
                        reader: history.reader.clone(),
                        told: word,
                    });
                }
                told.push((history.reader.clone(), word));
            }
        }
        finished(history)?;
    }
    Ok(Verdict {
        end: turn
            .end
            .and_then(|end| Some((end, turn.frames[&end].0.end.clone()?))),
        frames: turn.frames.len(),
        told,
    })
}

/// Whether everything that any reader was given is still there for `last`, who came after all of them and read from the first frame on.
/// That is what a log promises that acknowledges nothing before it is on the disk.
///
/// # Errors
///
/// [`Violation::Vanished`], or another one of the histories together.
pub fn keeps(histories: &[History], last: &History) -> Result<(), Violation> {
    let mut all = histories.to_vec();
    all.push(last.clone());
    let turn = Turn::of(&all, &[])?;
    let kept: Vec<u64> = frames(last)
        .filter(|seen| !is_word(seen, &[]))
        .map(|seen| seen.index)
        .collect();
    for (index, (_, reader)) in &turn.frames {
        if kept.binary_search(index).is_err() {
            return Err(Violation::Vanished {
                index: *index,
                reader: (*reader).to_owned(),
            });
        }
    }
    Ok(())
}

/// The turn as all readers together saw it.
struct Turn<'a> {
    /// By index, with one who saw it.
    frames: BTreeMap<u64, (&'a Seen, &'a str)>,
    end: Option<u64>,
}

impl<'a> Turn<'a> {
    fn of(histories: &'a [History], allowed: &[Told]) -> Result<Self, Violation> {
        let mut frames_seen: BTreeMap<u64, (&Seen, &str)> = BTreeMap::new();
        for history in histories {
            // A word about a loss is no frame of the turn: each reader is told for itself.
            let own = |seen: &&Seen| !is_word(seen, allowed) && !seen.is_snapshot;
            for seen in frames(history).filter(own) {
                let (first, who) = *frames_seen.entry(seen.index).or_insert((seen, &history.reader));
                if first != seen {
                    return Err(Violation::Differs {
                        index: seen.index,
                        one: who.to_owned(),
                        other: history.reader.clone(),
                    });
                }
            }
        }
        let end = frames_seen
            .iter()
            .find_map(|(index, (seen, _))| seen.end.is_some().then_some(*index));
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

    /// "Nothing left" is true only right behind the end.
    fn contains(&self, reader: &str, visit: &Visit) -> Result<(), Violation> {
        let is_over = self.end.is_some_and(|end| visit.from == end + 1);
        if visit.ended == Ended::Nothing && !is_over {
            return Err(Violation::SilentLoss {
                reader: reader.to_owned(),
                from: visit.from,
            });
        }
        Ok(())
    }
}

/// What can be said of one reader without the others.
fn alone(history: &History, allowed: &[Told]) -> Result<(), Violation> {
    let reader = || history.reader.clone();
    let mut expected = history.visits.first().map_or(0, |visit| visit.from);
    // From where on it was told that nothing will ever come.
    let mut given_up: Option<u64> = None;
    let mut is_over = false;
    for visit in &history.visits {
        if visit.from != expected {
            return Err(Violation::BadRecord(format!(
                "{} asks for {} and should for {expected}",
                history.reader, visit.from
            )));
        }
        let has_body = matches!(visit.ended, Ended::Whole | Ended::Cut);
        if !has_body && !visit.frames.is_empty() {
            return Err(Violation::BadRecord(format!(
                "{}: frames in {:?}",
                history.reader, visit.ended
            )));
        }
        for (place, seen) in visit.frames.iter().enumerate() {
            if is_over || place > 0 && visit.frames[place - 1].end.is_some() {
                return Err(Violation::AfterEnd {
                    reader: reader(),
                    index: seen.index,
                });
            }
            if seen.is_snapshot && seen.index >= expected {
                expected = seen.index + 1;
                continue;
            }
            if seen.index < expected && place > 0 {
                return Err(Violation::Repeated {
                    reader: reader(),
                    index: seen.index,
                });
            }
            if seen.index != expected {
                return Err(match place {
                    0 => Violation::WrongStart {
                        reader: reader(),
                        asked: expected,
                        given: seen.index,
                    },
                    _ => Violation::Gap {
                        reader: reader(),
                        missing: expected,
                    },
                });
            }
            if is_word(seen, allowed) {
                // It has no frame of that index yet, and may ask again.
                continue;
            }
            if given_up.is_some_and(|index| seen.index >= index) {
                return Err(Violation::Revived {
                    reader: reader(),
                    index: seen.index,
                });
            }
            expected += 1;
        }
        let last = visit.frames.last();
        if visit.ended == Ended::Whole && last.is_none_or(|seen| seen.end.is_none()) {
            return Err(Violation::NoEnd { reader: reader() });
        }
        is_over |= last.is_some_and(|seen| seen.end.is_some() && !is_word(seen, allowed));
        let for_good = [Told::Lost, Told::Gone];
        if told_by(&history.reader, visit, allowed)?.is_some_and(|told| for_good.contains(&told)) {
            given_up.get_or_insert(expected);
        }
    }
    Ok(())
}

/// The last thing that a reader sees is an end, or a word about why there is none.
fn finished(history: &History) -> Result<(), Violation> {
    let unfinished = || Violation::Unfinished {
        reader: history.reader.clone(),
    };
    let last = history.visits.last().ok_or_else(unfinished)?;
    match last.ended {
        Ended::Nothing | Ended::Refused(_) => Ok(()),
        // An end that arrived has arrived, whatever becomes of the connection.
        Ended::Whole | Ended::Cut => match last.frames.last() {
            Some(seen) if seen.end.is_some() => Ok(()),
            _ => Err(unfinished()),
        },
    }
}

fn frames(history: &History) -> impl Iterator<Item = &Seen> {
    history.visits.iter().flat_map(|visit| &visit.frames)
}

/// Whether a frame is no part of the turn, but says why the reader gets no more of it.
fn is_word(seen: &Seen, allowed: &[Told]) -> bool {
    word(seen, allowed).is_some()
}

fn word(seen: &Seen, allowed: &[Told]) -> Option<Told> {
    match &seen.end {
        Some(End::Failed(code)) => match &**code {
            "lost" => Some(Told::Lost),
            "gone" => Some(Told::Gone),
            "unavailable" => Some(Told::Unavailable),
            "interrupted" if allowed.contains(&Told::Interrupted) => Some(Told::Interrupted),
            _ => None,
        },
        _ => None,
    }
}

/// What a visit told its reader instead of frames.
fn told_by(reader: &str, visit: &Visit, allowed: &[Told]) -> Result<Option<Told>, Violation> {
    match visit.ended {
        Ended::Refused(404) => Ok(Some(Told::Unknown)),
        Ended::Refused(409) => Ok(Some(Told::Lost)),
        Ended::Refused(410) => Ok(Some(Told::Gone)),
        Ended::Refused(416) => Ok(Some(Told::Ahead)),
        Ended::Refused(503) => Ok(Some(Told::Unavailable)),
        Ended::Refused(status) => Err(Violation::Status {
            reader: reader.to_owned(),
            status,
        }),
        Ended::Whole | Ended::Cut | Ended::Nothing => {
            Ok(visit.frames.last().and_then(|seen| word(seen, allowed)))
        }
    }
}

impl History {
    /// Of a reader that has seen nothing yet.
    pub fn new(reader: impl Into<String>) -> Self {
        Self {
            reader: reader.into(),
            visits: Vec::new(),
        }
    }

    /// The index after the last frame that it has, where its next visit begins.
    pub fn next(&self) -> u64 {
        let own = frames(self).filter(|seen| !is_word(seen, &[]));
        let first = self.visits.first().map_or(0, |visit| visit.from);
        own.last().map_or(first, |seen| seen.index + 1)
    }
}

impl Seen {
    /// From a line of JSON as the wire of JSON lines has it, without its LF.
    ///
    /// # Errors
    ///
    /// In words, where it is none.
    pub fn from_line(line: &[u8]) -> Result<Self, String> {
        let value = object(line)?;
        let index = value["index"].as_u64().ok_or("no index")?;
        // The index comes first there, so that what is left is what the other wire says.
        let start = format!("{{\"index\":{index},");
        let rest = line
            .strip_prefix(start.as_bytes())
            .ok_or("the index does not come first")?;
        Ok(Self::new(index, [b"{", rest].concat(), &value))
    }

    /// From `id` and `data` of a server-sent event.
    ///
    /// # Errors
    ///
    /// In words, where it is none.
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
        _ => Err(format!("no object: {}", String::from_utf8_lossy(bytes))),
    }
}

impl fmt::Debug for Seen {
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
