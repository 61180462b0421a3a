//! What a Redis server keeps when it crashes.

/// What an acknowledged write survives, according to the server's settings `appendonly` and
/// `appendfsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A crash of the server or of its machine loses nothing (`appendonly yes`, `appendfsync
    /// always`).
    Always,
    /// A crash of the machine may lose the writes of the last second or two (`appendonly yes`,
    /// `appendfsync everysec` or `no`). A turn that loses frames fails; its stream never continues
    /// past a gap.
    EverySecond,
    /// A restart loses everything, or what was written after the last snapshot (`appendonly no`).
    None,
    /// The server does not report it, because `CONFIG GET` is forbidden.
    Unknown,
}

impl Durability {
    /// Returns whether this is at least `needed`. `Unknown` covers only `None` and itself.
    pub(super) fn covers(self, needed: Self) -> bool {
        let rank = |durability| match durability {
            Self::None => 0,
            Self::Unknown => 1,
            Self::EverySecond => 2,
            Self::Always => 3,
        };
        rank(self) >= rank(needed)
    }
}

#[cfg(test)]
mod tests {
    use super::Durability::{Always, EverySecond, None, Unknown};

    #[test]
    fn a_durability_covers_itself_and_every_weaker_one() {
        let order = [None, Unknown, EverySecond, Always];
        for (rank, found) in order.into_iter().enumerate() {
            for (needed_rank, needed) in order.into_iter().enumerate() {
                assert_eq!(found.covers(needed), rank >= needed_rank, "{found:?} {needed:?}");
            }
        }
    }
}
