//! Repeatable random numbers: a test prints its seed and accepts one from the environment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The environment variable that contains a seed.
pub const VARIABLE: &str = "TEST_SEED";

/// A pseudo-random number generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Takes the seed from [`VARIABLE`], or else from the clock, and prints it, so that a failure
    /// shows it.
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

    /// Creates a generator with a fixed seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns a time from `low` to `high`, in whole milliseconds.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let span = millis(high.saturating_sub(low)).saturating_add(1);
        low + Duration::from_millis(self.below(span))
    }
}
