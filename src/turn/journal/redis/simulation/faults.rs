//! What goes wrong in a run: one fault after the other, until the network is healthy for good.

use std::sync::Arc;
use std::time::Duration;

use ragwire_test_support::seed::Seed;
use tokio::time::{Instant, sleep};

use super::check;
use super::world::{Faults, Report, World};

/// How long faults happen.
const FAULTS: Duration = Duration::from_secs(9);
/// Between two times at which the server refuses writes, every host gets one accepted: it is longer than
/// the longest pause between two attempts.
const ACCEPTING: Duration = Duration::from_millis(800);
/// The delay of one direction in a slow network: two of them are longer than the client waits.
const SLOW: Duration = Duration::from_millis(600);

pub(super) async fn run(world: &Arc<World>, random: &mut Seed, report: &mut Report) {
    let until = Instant::now() + FAULTS;
    let mut before = None;
    while Instant::now() < until {
        pause(
            world,
            random.between(Duration::from_millis(50), Duration::from_millis(1500)),
        )
        .await;
        let network = &world.network;
        match world.plan.faults {
            Faults::None => continue,
            Faults::Refusals => {
                pause(world, ACCEPTING).await;
                let time = random.between(Duration::from_millis(50), world.plan.retry);
                refuse_writes(world, time, report).await;
                continue;
            }
            Faults::Durable | Faults::Losses => {}
        }
        let host = random.below(world.plan.hosts as u64) as usize;
        // Shorter than a lease, or longer than a lease and the retries together.
        let time = random.between(Duration::from_millis(50), world.plan.lease + world.plan.retry);
        if world.plan.faults == Faults::Losses && before.is_none() {
            before = Some(network.server(|server| server.clone()));
        }
        match random.below(14) {
            0..=3 => network.break_connections(Some(host)),
            4 | 5 => {
                report.partitions += 1;
                network.cut(host, true);
                pause(world, time).await;
                heal(world, host, random);
            }
            6 => {
                report.partitions += 1;
                (0..world.plan.hosts).for_each(|host| network.cut(host, true));
                pause(world, time).await;
                (0..world.plan.hosts).for_each(|host| heal(world, host, random));
            }
            7 => {
                network.set_max_delay(Some(SLOW));
                pause(world, time).await;
                network.set_max_delay(None);
            }
            8 | 9 => {
                report.restarts += 1;
                network.stop_server(before.take());
                pause(world, time / 2).await;
                network.start_server();
            }
            10 => network.server(|server| server.scripts.clear()),
            11 | 12 => refuse_writes(world, time, report).await,
            _ => {
                // At least one host lives on.
                if world.lock().dead.len() + 1 < world.plan.hosts && world.is_alive(host) {
                    report.crashes += 1;
                    world.crash(host);
                }
            }
        }
    }
}

/// Lets the server refuse writes for some time.
async fn refuse_writes(world: &World, time: Duration, report: &mut Report) {
    report.refusals += 1;
    world.network.server(|server| server.is_read_only = true);
    pause(world, time).await;
    world.network.server(|server| server.is_read_only = false);
}

/// Ends a partition. Connections continue, or break.
fn heal(world: &World, host: usize, random: &mut Seed) {
    if random.below(2) == 0 {
        world.network.break_connections(Some(host));
    }
    world.network.cut(host, !world.is_alive(host));
}

/// Lets time pass, and checks that nothing grows.
async fn pause(world: &World, time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        check::memory(world);
        sleep((until - Instant::now()).min(Duration::from_millis(200))).await;
    }
}
