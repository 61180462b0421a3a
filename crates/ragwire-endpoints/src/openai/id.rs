//! The IDs of completions and responses, which contain the turn, so that they can be read again, and
//! when it began, which the protocols repeat in every object.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use ragwire::turn::TurnId;

/// The length of the time and of the turn in an ID, in hexadecimal digits.
const TIME: usize = 10;
const TURN: usize = 32;

/// A turn and the time at which it began, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CreatedTurn {
    pub(crate) created: u64,
    pub(crate) turn: TurnId,
}

impl CreatedTurn {
    /// Creates the ID of a turn that begins now.
    pub(crate) fn now(turn: TurnId) -> Self {
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            created: created.as_secs(),
            turn,
        }
    }

    /// Parses an ID and returns what follows it.
    pub(crate) fn parse(text: &str) -> Option<(Self, &str)> {
        let (created, rest) = text.split_at_checked(TIME)?;
        let (turn, rest) = rest.split_at_checked(TURN)?;
        let id = Self {
            created: u64::from_str_radix(created, 16).ok()?,
            turn: TurnId::parse(turn)?,
        };
        Some((id, rest))
    }
}

impl fmt::Display for CreatedTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0TIME$x}{}", self.created, self.turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_parsed_as_it_was_written() {
        let id = CreatedTurn {
            created: 1_767_323_045,
            turn: TurnId::random(),
        };
        assert_eq!(CreatedTurn::parse(&format!("{id}-rest")), Some((id, "-rest")));
        let short = &id.to_string()[1..];
        for text in ["", "0", short, "\u{20ac}\u{20ac}\u{20ac}\u{20ac}"] {
            assert_eq!(CreatedTurn::parse(text), None, "{text}");
        }
    }
}
