//! The state of an Eve session besides its messages: its token, its turns, and the index of each
//! turn's first line.
//!
//! It is stored as the state of a [`Session`](ragwire::session::Session), so a change counts for
//! all hosts. This module does not know the store, the journal or the clock.

use std::fmt;

use ragwire::Eve;
use ragwire::turn::TurnId;
use serde::{Deserialize, Serialize};

/// Maximum number of turns with readable lines: more than a journal stores of one session.
const MAX_TURNS: usize = 64;
/// More lines than any turn can have within its time-outs. If the number of lines of a turn is
/// lost, the next turn starts this much later: a client that read some of its lines learns that the
/// rest was dropped, and cannot mistake lines of the next turn for them.
const MAX_LINES: u64 = 1 << 32;

/// The state of one session.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct State {
    /// The token that a client needs to continue the session.
    pub(super) token: String,
    /// Whether it uses the documented vocabulary.
    #[serde(default)]
    pub(super) documented: bool,
    pub(super) phase: Phase,
    /// The sequence number of the next turn, which is the number of turns so far.
    #[serde(default)]
    pub(super) next: u64,
    /// The number of lines, without those of a running turn.
    #[serde(default)]
    pub(super) lines: u64,
    /// The newest turns, oldest first. The last one is running in the phase `Active`.
    #[serde(default)]
    pub(super) turns: Vec<TurnRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The session accepts a message.
    Waiting,
    /// A host has claimed the session for a turn whose response has not begun. The claim expires at
    /// `until`, in milliseconds since 1970.
    Starting { host: String, until: u64 },
    /// The last turn is running.
    Active,
    /// The session failed and cannot continue.
    #[serde(rename = "over")]
    Failed,
}

/// A turn of the session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TurnRecord {
    pub(super) id: String,
    pub(super) sequence: u64,
    /// The index of its first line.
    pub(super) first: u64,
    /// The text of the message.
    pub(super) question: String,
    /// The number of its lines, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<u64>,
}

impl fmt::Debug for TurnRecord {
    /// Omits the question, which must not appear in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("sequence", &self.sequence)
            .field("first", &self.first)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

/// The lines of an ended turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineCount {
    pub(super) lines: u64,
    /// Whether the session failed with this turn.
    pub(super) ends_session: bool,
}

/// The result of a read at an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinePosition {
    /// A line of this turn, available or to come.
    Turn(TurnRecord),
    /// Nothing, unless another turn starts.
    End,
    /// A line that has been dropped.
    Dropped,
}

impl State {
    pub(super) fn new(token: String, documented: bool) -> Self {
        Self {
            token,
            documented,
            phase: Phase::Waiting,
            next: 0,
            lines: 0,
            turns: Vec::new(),
        }
    }

    /// Returns the running turn, according to this state.
    pub(super) fn running(&self) -> Option<&TurnRecord> {
        self.turns.last().filter(|_| self.phase == Phase::Active)
    }

    /// Adds a started turn, and removes the oldest ones beyond the limits.
    pub(super) fn add_turn(&mut self, turn: TurnId, question: String, max_bytes: usize) {
        self.turns.push(TurnRecord {
            id: turn.to_string(),
            sequence: self.next,
            first: self.lines,
            question,
            lines: None,
        });
        self.next += 1;
        self.phase = Phase::Active;
        let length = |state: &Self| serde_json::to_vec(state).map_or(0, |json| json.len());
        while self.turns.len() > 1 && (self.turns.len() > MAX_TURNS || length(self) > max_bytes) {
            self.turns.remove(0);
        }
    }

    /// Stores that a turn has ended. Returns `false` if that was stored before.
    pub(super) fn settle(&mut self, turn: &str, count: Option<LineCount>) -> bool {
        if self.running().is_none_or(|running| running.id != turn) {
            return false;
        }
        let Some(mut record) = self.turns.pop() else {
            return false;
        };
        self.phase = Phase::Waiting;
        match count {
            Some(count) => {
                self.lines = record.first + count.lines;
                record.lines = Some(count.lines);
                self.turns.push(record);
                if count.ends_session {
                    self.phase = Phase::Failed;
                }
            }
            // The lines are lost, and so is their number.
            None => self.lines = record.first + MAX_LINES,
        }
        true
    }

    /// Returns what a reader gets at `index`.
    pub(super) fn position(&self, index: u64) -> LinePosition {
        let ends_after = |turn: &&TurnRecord| turn.lines.is_none_or(|lines| index < turn.first + lines);
        match self.turns.iter().find(ends_after) {
            Some(turn) if turn.first <= index => LinePosition::Turn(turn.clone()),
            Some(_) => LinePosition::Dropped,
            None if index < self.lines => LinePosition::Dropped,
            None => LinePosition::End,
        }
    }

    /// Returns the wire of a turn in the session `id`.
    pub(super) fn wire(&self, id: &str, turn: &TurnRecord) -> Eve {
        let wire = Eve::new(id)
            .turn(turn.sequence)
            .first_index(turn.first)
            .message(turn.question.as_str())
            .parks();
        if self.documented { wire.documented() } else { wire }
    }

    /// Compares a token in constant time, so that the duration does not reveal a correct prefix.
    pub(super) fn has_token(&self, given: &str) -> bool {
        let (given, token) = (given.as_bytes(), self.token.as_bytes());
        let differing = given
            .iter()
            .zip(token)
            .fold(0, |differing, (a, b)| differing | (a ^ b));
        given.len() == token.len() && std::hint::black_box(differing) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: LineCount = LineCount {
        lines: 5,
        ends_session: false,
    };

    fn begin(state: &mut State) -> String {
        let id = TurnId::random();
        state.add_turn(id, "Why?".into(), 10_000);
        id.to_string()
    }

    fn sequence(position: LinePosition) -> Option<u64> {
        match position {
            LinePosition::Turn(turn) => Some(turn.sequence),
            LinePosition::End | LinePosition::Dropped => None,
        }
    }

    #[test]
    fn each_index_belongs_to_one_turn() {
        let mut state = State::new("t".into(), false);
        assert_eq!(state.position(0), LinePosition::End);
        let first = begin(&mut state);
        assert_eq!(sequence(state.position(0)), Some(0));
        assert_eq!(
            sequence(state.position(1000)),
            Some(0),
            "the line may still be sent"
        );
        assert!(state.settle(&first, Some(COUNT)));
        assert!(!state.settle(&first, Some(COUNT)), "the number of lines is known");
        let second = begin(&mut state);
        assert!(!state.settle(&first, None));
        assert!(state.settle(&second, Some(COUNT)));
        let of: Vec<_> = (0..11).map(|index| sequence(state.position(index))).collect();
        let expected = [[Some(0); 5], [Some(1); 5]].concat();
        assert_eq!(of[..10], expected);
        assert_eq!(
            (state.position(10), state.lines, state.next),
            (LinePosition::End, 10, 2)
        );
    }

    #[test]
    fn a_turn_with_lost_lines_leaves_a_gap() {
        let mut state = State::new("t".into(), true);
        let first = begin(&mut state);
        state.settle(&first, Some(COUNT));
        let lost = begin(&mut state);
        assert!(state.settle(&lost, None));
        assert_eq!(state.phase, Phase::Waiting);
        for index in [5, 6, 1000] {
            assert_eq!(state.position(index), LinePosition::Dropped, "{index}");
        }
        begin(&mut state);
        assert_eq!(sequence(state.position(4)), Some(0));
        assert_eq!(state.position(5), LinePosition::Dropped);
        assert_eq!(sequence(state.position(5 + MAX_LINES)), Some(2));
    }

    #[test]
    fn the_oldest_turns_are_removed() {
        let mut state = State::new("t".into(), false);
        for _ in 0..MAX_TURNS + 2 {
            let turn = begin(&mut state);
            state.settle(&turn, Some(COUNT));
        }
        assert_eq!((state.turns.len(), state.turns[0].sequence), (MAX_TURNS, 2));
        assert_eq!(state.position(9), LinePosition::Dropped);
        let id = TurnId::random();
        state.add_turn(id, "x".repeat(9_900), 10_000);
        assert_eq!(state.turns.len(), 1);
        assert_eq!(state.position(10), LinePosition::Dropped);
    }

    #[test]
    fn a_session_that_failed_stays_failed() {
        let mut state = State::new("t".into(), true);
        let turn = begin(&mut state);
        let count = LineCount {
            ends_session: true,
            ..COUNT
        };
        assert!(state.settle(&turn, Some(count)));
        assert_eq!((state.phase, state.lines), (Phase::Failed, 5));
    }

    #[test]
    fn only_the_whole_token_matches() {
        let state = State::new("eve_0123".into(), false);
        assert!(state.has_token("eve_0123"));
        for token in ["", "x", "eve_012", "eve_01234", "eve_0124"] {
            assert!(!state.has_token(token), "{token}");
        }
    }
}
