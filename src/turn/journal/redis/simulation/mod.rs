//! A deterministic simulation of the journal on several hosts: one thread, a clock that only moves
//! while everything waits, a network and a Redis server in memory ([`network`], [`server`]), and one
//! seed that decides everything else.
//!
//! Each seed is a run of some seconds: turns that are written, readers that move between hosts, stops,
//! and faults. [`check`] judges what everyone has seen. The same seed is the same run.
//!
//! `TEST_SIMULATIONS` sets the number of seeds, `TEST_SEED` the first one.

mod check;
mod faults;
mod lua;
mod network;
mod server;
mod world;

use std::panic::AssertUnwindSafe;

use tokio::runtime::Builder;

use crate::turn::repeatable;
use world::{Plan, Report, World};

/// Seeds of a normal test run: about 11 seconds of processor time in a debug build.
const SEEDS: u64 = 300;

#[expect(
    clippy::disallowed_methods,
    reason = "the runtime of the simulation ends with it"
)]
fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

/// Runs one seed.
fn simulate(seed: u64) -> Report {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    repeatable::count_from(Some(1 << 64));
    let report = runtime.block_on(async {
        let world = World::new(Plan::of(seed)).await;
        world.run().await
    });
    drop(runtime);
    repeatable::count_from(None);
    report
}

/// Returns a number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn readers_see_one_turn_through_delays_losses_and_partitions() {
    let (first, count) = (setting("TEST_SEED", 0), setting("TEST_SIMULATIONS", SEEDS));
    let mut total = Report::default();
    for seed in first..first + count {
        match std::panic::catch_unwind(AssertUnwindSafe(|| simulate(seed))) {
            Ok(report) => total.add(&report),
            Err(panic) => {
                eprintln!("repeat this run with TEST_SEED={seed} TEST_SIMULATIONS=1");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!("{count} runs from seed {first}: {total:?}");
    // Otherwise the faults are not what the runs are about.
    if count >= SEEDS {
        total.assert_covers_everything();
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [1, 2, 3, 4] {
        let (one, other) = (simulate(seed), simulate(seed));
        assert_eq!(one, other, "seed {seed}");
        assert_ne!(one.fingerprint, simulate(seed + 100).fingerprint);
    }
}
