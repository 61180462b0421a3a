//! Randomness that can be played again: a test prints its seed, and takes it back from the environment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The variable that a seed is taken from.
pub const VARIABLE: &str = "TEST_SEED";

/// A source of numbers that are all known once its seed is (splitmix64).
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// From [`VARIABLE`], or from the clock; printed, so that a failure shows it.
    pub fn from_environment(test: &str) -> Self {
        let seed = match std::env::var(VARIABLE) {
            Ok(seed) => seed.parse().expect("TEST_SEED is a whole number"),
            Err(_) => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::from(since.subsec_nanos()) ^ since.as_secs()
            }
        };
        println!("{test}: {VARIABLE}={seed}");
        Self(seed)
    }

    /// A known one.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// A time from `low` to `high`, in whole milliseconds.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let span = millis(high.saturating_sub(low)).saturating_add(1);
        low + Duration::from_millis(self.below(span))
    }
}
