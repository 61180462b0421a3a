//! A group compared with a plain model of it, under random arrivals, disconnects and ends.

use proptest::prelude::*;

use super::*;

const MAX_ACTIVE: usize = 3;
const MAX_QUEUED: usize = 4;
const MAX_PER_OWNER: usize = 2;
const OWNERS: [Option<&str>; 4] = [None, Some("a"), Some("b"), Some("c")];

/// The next step. Numbers choose among the existing turns.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Arrives(usize),
    /// Its reader disconnects.
    Leaves(usize),
    Stops(usize),
    /// An active turn completes.
    Ends(usize),
    /// Milliseconds.
    Passes(u64),
}

fn steps() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..OWNERS.len()).prop_map(Happening::Arrives),
        1 => any::<usize>().prop_map(Happening::Leaves),
        1 => any::<usize>().prop_map(Happening::Stops),
        2 => any::<usize>().prop_map(Happening::Ends),
        1 => (1..2000_u64).prop_map(Happening::Passes),
    ]
}

struct Guest {
    owner: Option<&'static str>,
    sink: Sink,
    pending: Pending,
    came: Instant,
    position: u32,
    waited: Duration,
}

/// Two lists and the rules of admission.
#[derive(Default)]
struct Model {
    active: Vec<Guest>,
    waiting: Vec<Guest>,
}

impl Model {
    fn active_of(&self, owner: Option<&str>) -> usize {
        self.active.iter().filter(|guest| guest.owner == owner).count()
    }

    fn may_run(&self, owner: Option<&str>) -> bool {
        self.active.len() < MAX_ACTIVE && (owner.is_none() || self.active_of(owner) < MAX_PER_OWNER)
    }

    /// Admits the first turns that may run while there is room.
    fn admit(&mut self) {
        while let Some(at) = self.waiting.iter().position(|guest| self.may_run(guest.owner)) {
            let mut guest = self.waiting.remove(at);
            guest.waited = guest.came.elapsed();
            self.active.push(guest);
        }
    }

    fn refusal(&self, owner: Option<&str>) -> Option<&'static str> {
        if self.may_run(owner) || self.waiting.len() < MAX_QUEUED {
            return None;
        }
        let waiting = self.waiting.iter().filter(|guest| guest.owner == owner).count();
        let has_his_share = owner.is_some() && self.active_of(owner) + waiting >= MAX_PER_OWNER;
        Some(if has_his_share { "too_many" } else { "busy" })
    }

    /// The position of the last waiting turn: among those of its owner if it waits for one of them,
    /// otherwise among those that wait for any room.
    fn last_position(&self) -> u32 {
        let held: Vec<bool> = (0..self.waiting.len())
            .scan(Vec::new(), |free: &mut Vec<Option<&str>>, at| {
                let owner = self.waiting[at].owner;
                let before = free.iter().filter(|other| **other == owner).count();
                let held = owner.is_some() && self.active_of(owner) + before >= MAX_PER_OWNER;
                if !held {
                    free.push(owner);
                }
                Some(held)
            })
            .collect();
        let (last, before) = self.waiting.split_last().unwrap();
        let last_is_held = held[before.len()];
        let in_the_way = before.iter().zip(&held).filter(|(guest, held)| {
            if last_is_held {
                guest.owner == last.owner
            } else {
                !**held
            }
        });
        u32::try_from(in_the_way.count()).unwrap() + 1
    }
}

fn owners(guests: &[Guest]) -> Vec<String> {
    guests
        .iter()
        .filter_map(|guest| guest.owner.map(str::to_owned))
        .collect()
}

async fn play_out(script: Vec<Happening>) {
    let group = TurnGroup::builder()
        .max_active(MAX_ACTIVE)
        .max_queued(MAX_QUEUED)
        .max_per_owner(MAX_PER_OWNER)
        .build();
    let timeouts = Timeouts::default().idle(None).total(None).write_stall(None);
    let mut model = Model::default();
    for step in script {
        match step {
            Happening::Arrives(owner) => {
                let owner = OWNERS[owner];
                let mut turn = Turn::builder().timeouts(timeouts).group(&group);
                if let Some(owner) = owner {
                    turn = turn.owner(owner);
                }
                let refusal = model.refusal(owner);
                let (sink, pending) = turn.channel();
                if let Some(code) = refusal {
                    assert_eq!(
                        pending.commit().await.unwrap_err().failure.code(),
                        code,
                        "{step:?}"
                    );
                    continue;
                }
                let guest = Guest {
                    owner,
                    sink,
                    pending,
                    came: Instant::now(),
                    position: 0,
                    waited: Duration::ZERO,
                };
                if model.may_run(owner) {
                    model.active.push(guest);
                } else {
                    model.waiting.push(guest);
                    let position = model.last_position();
                    model.waiting.last_mut().unwrap().position = position;
                }
            }
            Happening::Leaves(which) | Happening::Stops(which) => {
                let all = model.active.len() + model.waiting.len();
                if all == 0 {
                    continue;
                }
                let at = which % all;
                let active = at < model.active.len();
                let guest = if active {
                    model.active.remove(at)
                } else {
                    model.waiting.remove(at - model.active.len())
                };
                if matches!(step, Happening::Stops(_)) {
                    assert!(guest.pending.handle().stop());
                    if !active {
                        // It leaves the waiting list before it is read.
                        settle().await;
                        assert_eq!(group.queued(), model.waiting.len());
                    }
                    drop(guest.pending.commit().await);
                } else {
                    drop(guest);
                }
                // Its room is free once the orchestrator was dropped too.
                settle_before(&mut model).await;
            }
            Happening::Ends(which) => {
                if model.active.is_empty() {
                    continue;
                }
                let guest = model.active.remove(which % model.active.len());
                guest.sink.finish(Metadata::default()).unwrap();
                let collected = guest.pending.commit().await.unwrap().collect().await.unwrap();
                let stats = collected.end.metadata.queue_stats.unwrap();
                let waited = guest.waited.as_micros() as f64 / 1e3;
                assert_eq!(
                    (stats.was_queued, stats.queue_position, stats.queue_wait_ms),
                    (guest.waited > ms(10), guest.position, Some(waited))
                );
                settle_before(&mut model).await;
            }
            Happening::Passes(time) => tokio::time::sleep(ms(time)).await,
        }
        settle().await;
        let now = group.owners();
        assert_eq!(
            (group.active(), group.queued(), now.active, now.queued),
            (
                model.active.len(),
                model.waiting.len(),
                owners(&model.active),
                owners(&model.waiting)
            ),
            "{step:?}"
        );
        assert!(group.active() <= MAX_ACTIVE && group.queued() <= MAX_QUEUED);
    }
    drop(model);
    settle().await;
    assert_eq!((group.active(), group.queued()), (0, 0));
    assert!(group.drained().now_or_never().is_some(), "all room is free again");
}

/// All tasks run before the clock advances, so the model admits at the same time.
async fn settle_before(model: &mut Model) {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    model.admit();
}

proptest! {
    #[test]
    fn a_group_does_as_its_model(script in prop::collection::vec(steps(), 1..80)) {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
            .block_on(play_out(script));
    }
}
