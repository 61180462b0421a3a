//! What a session of Eve is besides what was said in it: its token, its turns, and where each one's lines begin.
//!
//! It is the state of a [`Session`](ragwire::session::Session), so what is decided here is decided once, whichever host asks. It
//! knows no store, no journal and no clock.

use std::fmt;

use ragwire::Eve;
use ragwire::turn::TurnId;
use serde::{Deserialize, Serialize};

/// Most turns whose lines can be found: more than a journal keeps of one session.
const MAX_TURNS: usize = 64;
/// More lines than any turn has within its time-outs. Where it is lost how many lines of a turn were read, the next turn begins so far
/// on: whoever has read some of them is told that the rest is gone, and takes no line of the next turn for one of them.
const UNKNOWN_LINES: u64 = 1 << 32;

/// The state of one session.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct State {
    /// What a client shows to go on with it.
    pub(super) token: String,
    /// Whether it speaks the documented vocabulary.
    #[serde(default)]
    pub(super) documented: bool,
    pub(super) phase: Phase,
    /// The sequence of the next turn: how many have begun.
    #[serde(default)]
    pub(super) next: u64,
    /// How many lines there are, without those of a turn that runs.
    #[serde(default)]
    pub(super) lines: u64,
    /// The newest turns, oldest first; the last one runs where the phase says so.
    #[serde(default)]
    pub(super) turns: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Phase {
    /// The next message may come.
    Waiting,
    /// A host has taken it for a turn whose response has not begun. It is that host's until then (milliseconds since 1970).
    Starting { host: String, until: u64 },
    /// The last turn runs.
    Active,
    /// It failed for good.
    Over,
}

/// A turn of the session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: String,
    pub(super) sequence: u64,
    /// The index of its first line.
    pub(super) first: u64,
    /// What the user said.
    pub(super) question: String,
    /// How many lines it has, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lines: Option<u64>,
}

impl fmt::Debug for Record {
    /// Without the question: what people ask does not belong into a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("sequence", &self.sequence)
            .field("first", &self.first)
            .field("lines", &self.lines)
            .finish_non_exhaustive()
    }
}

/// How a turn ended, by its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) lines: u64,
    /// Whether the session is over with it.
    pub(super) ends_session: bool,
}

/// What is to be read at an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A line of this turn, there already or to come.
    Turn(Record),
    /// Nothing, unless another turn begins.
    Nothing,
    /// A line that cannot be read any more.
    Gone,
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

    /// The turn that runs, as far as this state knows.
    pub(super) fn running(&self) -> Option<&Record> {
        self.turns.last().filter(|_| self.phase == Phase::Active)
    }

    /// The turn begins; older ones make room.
    pub(super) fn began(&mut self, turn: TurnId, question: String, max_bytes: usize) {
        self.turns.push(Record {
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

    /// The turn is over. False where that is known already.
    pub(super) fn settle(&mut self, turn: &str, counted: Option<Counted>) -> bool {
        if self.running().is_none_or(|running| running.id != turn) {
            return false;
        }
        let Some(mut record) = self.turns.pop() else {
            return false;
        };
        self.phase = Phase::Waiting;
        match counted {
            Some(counted) => {
                self.lines = record.first + counted.lines;
                record.lines = Some(counted.lines);
                self.turns.push(record);
                if counted.ends_session {
                    self.phase = Phase::Over;
                }
            }
            // Its lines are lost, and how many there were.
            None => self.lines = record.first + UNKNOWN_LINES,
        }
        true
    }

    /// What is to be read at `index`.
    pub(super) fn at(&self, index: u64) -> At {
        let ends_after = |turn: &&Record| turn.lines.is_none_or(|lines| index < turn.first + lines);
        match self.turns.iter().find(ends_after) {
            Some(turn) if turn.first <= index => At::Turn(turn.clone()),
            Some(_) => At::Gone,
            None if index < self.lines => At::Gone,
            None => At::Nothing,
        }
    }

    /// How a turn is spelled in the session `id`.
    pub(super) fn wire(&self, id: &str, turn: &Record) -> Eve {
        let wire = Eve::new(id)
            .turn(turn.sequence)
            .first_index(turn.first)
            .message(turn.question.as_str())
            .parks();
        if self.documented { wire.documented() } else { wire }
    }

    /// Whether it is the session's token, compared without telling by the time how much of it is right.
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

    const COUNTED: Counted = Counted {
        lines: 5,
        ends_session: false,
    };

    fn begin(state: &mut State) -> String {
        let id = TurnId::random();
        state.began(id, "Why?".into(), 10_000);
        id.to_string()
    }

    fn sequence(at: At) -> Option<u64> {
        match at {
            At::Turn(turn) => Some(turn.sequence),
            At::Nothing | At::Gone => None,
        }
    }

    #[test]
    fn each_index_belongs_to_one_turn() {
        let mut state = State::new("t".into(), false);
        assert_eq!(state.at(0), At::Nothing);
        let first = begin(&mut state);
        assert_eq!(sequence(state.at(0)), Some(0));
        assert_eq!(sequence(state.at(1000)), Some(0), "it may still come");
        assert!(state.settle(&first, Some(COUNTED)));
        assert!(!state.settle(&first, Some(COUNTED)), "it is known");
        let second = begin(&mut state);
        assert!(!state.settle(&first, None));
        assert!(state.settle(&second, Some(COUNTED)));
        let of: Vec<_> = (0..11).map(|index| sequence(state.at(index))).collect();
        let expected = [[Some(0); 5], [Some(1); 5]].concat();
        assert_eq!(of[..10], expected);
        assert_eq!((state.at(10), state.lines, state.next), (At::Nothing, 10, 2));
    }

    #[test]
    fn what_is_lost_leaves_a_gap_that_is_said() {
        let mut state = State::new("t".into(), true);
        let first = begin(&mut state);
        state.settle(&first, Some(COUNTED));
        let lost = begin(&mut state);
        assert!(state.settle(&lost, None));
        assert_eq!(state.phase, Phase::Waiting);
        for index in [5, 6, 1000] {
            assert_eq!(state.at(index), At::Gone, "{index}");
        }
        begin(&mut state);
        assert_eq!(sequence(state.at(4)), Some(0));
        assert_eq!(state.at(5), At::Gone);
        assert_eq!(sequence(state.at(5 + UNKNOWN_LINES)), Some(2));
    }

    #[test]
    fn old_turns_make_room() {
        let mut state = State::new("t".into(), false);
        for _ in 0..MAX_TURNS + 2 {
            let turn = begin(&mut state);
            state.settle(&turn, Some(COUNTED));
        }
        assert_eq!((state.turns.len(), state.turns[0].sequence), (MAX_TURNS, 2));
        assert_eq!(state.at(9), At::Gone);
        let id = TurnId::random();
        state.began(id, "x".repeat(9_900), 10_000);
        assert_eq!(state.turns.len(), 1);
        assert_eq!(state.at(10), At::Gone);
    }

    #[test]
    fn a_failure_for_good_is_kept() {
        let mut state = State::new("t".into(), true);
        let turn = begin(&mut state);
        let counted = Counted {
            ends_session: true,
            ..COUNTED
        };
        assert!(state.settle(&turn, Some(counted)));
        assert_eq!((state.phase, state.lines), (Phase::Over, 5));
    }

    #[test]
    fn a_token_is_right_or_not() {
        let state = State::new("eve_0123".into(), false);
        assert!(state.has_token("eve_0123"));
        for token in ["", "x", "eve_012", "eve_01234", "eve_0124"] {
            assert!(!state.has_token(token), "{token}");
        }
    }
}
