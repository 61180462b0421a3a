//! The name of a turn.

use std::fmt;

/// The name of a turn in responses: 128 random bits, written as 32 hexadecimal digits. Logs have
/// only the first 8 of them, because an ID grants access to a turn without an owner.
///
/// ```
/// use ragwire::TurnId;
///
/// let id = TurnId::random();
/// assert_eq!(TurnId::parse(&id.to_string()), Some(id));
/// assert_eq!(TurnId::parse("turn-1"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(u128);

impl TurnId {
    /// Creates an ID from the operating system's random number generator.
    pub fn random() -> Self {
        #[cfg(all(test, feature = "redis"))]
        if let Some(id) = repeatable::next() {
            return id;
        }
        let mut bytes = [0; 16];
        // A system without randomness still serves turns: without a journal an ID only names a
        // turn. A journal, where an ID grants access, rejects such turns.
        if getrandom::fill(&mut bytes).is_err() {
            tracing::error!("the operating system provides no randomness for turn IDs");
        }
        Self(u128::from_ne_bytes(bytes))
    }

    /// Parses an ID in its written form: 32 hexadecimal digits in lower case. Returns `None` for
    /// any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let is_written =
            text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u128::from_str_radix(text, 16)
            .ok()
            .filter(|_| is_written)
            .map(Self)
    }

    /// Returns the first 8 of the 32 digits, for logs: they find the turn, and are too few to read
    /// it.
    ///
    /// ```
    /// use ragwire::TurnId;
    ///
    /// let id = TurnId::random();
    /// assert_eq!(id.short(), id.to_string()[..8]);
    /// ```
    pub fn short(self) -> String {
        format!("{:08x}", self.0 >> 96)
    }

    /// Returns `false` if the system had no randomness for this ID.
    pub(super) fn is_random(self) -> bool {
        self.0 != 0
    }
}

impl fmt::Display for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TurnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// IDs that repeat, for a simulation that runs on one thread.
#[cfg(all(test, feature = "redis"))]
pub(in crate::turn) mod repeatable {
    use std::cell::Cell;

    use super::TurnId;

    thread_local! {
        static NEXT: Cell<Option<u128>> = const { Cell::new(None) };
    }

    /// Makes the IDs of this thread count from `first`; `None` makes them random again.
    pub(in crate::turn) fn count_from(first: Option<u128>) {
        NEXT.set(first);
    }

    pub(super) fn next() -> Option<TurnId> {
        let id = NEXT.get()?;
        NEXT.set(Some(id + 1));
        Some(TurnId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_it_is_read_and_logs_have_its_beginning() {
        for (text, short, is_random) in [
            ("0123456789abcdef0123456789abcdef", "01234567", true),
            ("00000000000000000000000000000001", "00000000", true),
            // What a system without randomness gives.
            ("00000000000000000000000000000000", "00000000", false),
        ] {
            let id = TurnId::parse(text).unwrap();
            assert_eq!(
                (&*id.to_string(), &*id.short(), id.is_random()),
                (text, short, is_random)
            );
        }
    }
}
