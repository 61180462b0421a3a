//! One run: hosts, the turns that they write, and the readers and stops.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use ragwire_test_support::history::{End, History, ReceivedFrame, Visit, VisitEnd};
use ragwire_test_support::seed::Seed;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::network::{Counts, HostNetwork, MAX_LATENESS, Network};
use super::{check, faults, spawn};
use crate::failure::Failure;
use crate::redis::RedisOptions;
use crate::turn::{Disconnect, Journal, JournalLimits, ResumeError, StopError, Turn, TurnId};
use crate::{Commit, Metadata, Ndjson};

pub(super) const OWNER: &str = "alice";
/// A client that is refused for now asks again after this time.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often a client disconnects before it reads to the end.
const MAX_VISITS: usize = 8;

/// What a seed decides before the run.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) hosts: usize,
    pub(super) turns: usize,
    pub(super) lease: Duration,
    pub(super) retry: Duration,
    pub(super) keep: Duration,
    pub(super) max_turn_bytes: usize,
    pub(super) faults: Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Faults {
    /// Delays only: each turn has the end that its writer gives it.
    None,
    /// The server refuses writes, each time for less than the retry time: as without faults, each turn
    /// has the end that its writer gives it.
    Refusals,
    /// Everything except the loss of acknowledged writes.
    Durable,
    /// The server also loses its last writes when it restarts.
    Losses,
}

/// The longest time that a writer takes for its texts.
const WRITING: Duration = Duration::from_secs(8);
/// The longest time that a writer is silent: longer than a lease.
const SILENCE: Duration = Duration::from_secs(6);
/// Writers begin within this time, before and after the first faults.
const BEGINNING: Duration = Duration::from_secs(3);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(300);
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);

impl Plan {
    pub(super) fn of(seed: u64) -> Self {
        let mut random = Seed::new(seed);
        let faults = match seed % 8 {
            0 | 1 => Faults::None,
            2 => Faults::Refusals,
            7 => Faults::Losses,
            _ => Faults::Durable,
        };
        Self {
            seed,
            hosts: 2 + random.below(2) as usize,
            turns: 1 + random.below(3) as usize,
            lease: random.between(Duration::from_millis(800), Duration::from_secs(4)),
            retry: random.between(Duration::from_millis(500), Duration::from_secs(4)),
            // Short enough that late readers find nothing, or longer than all of them read.
            keep: match random.below(4) {
                // Longer than a request is late: docs/decisions/redis.md.
                0 => MAX_LATENESS + Duration::from_secs(1),
                _ => Duration::from_secs(120),
            },
            max_turn_bytes: match random.below(6) {
                // Too small for a snapshot of what is dropped, or large enough.
                0 => 2000,
                1 => 40_000,
                _ => JournalLimits::MAX_TURN_BYTES,
            },
            faults,
        }
    }

    /// Within this time after the last fault, everything has ended: a writer writes, its lease runs
    /// out, and a host that waits for the server gives up or gets its answer.
    pub(super) fn bound(&self) -> Duration {
        let visits = MAX_VISITS as u32 + 2;
        WRITING
            + SILENCE
            + self.lease * 3
            + (self.retry + CONNECT_TIMEOUT + RESPONSE_TIMEOUT) * 3
            + PATIENCE * visits
    }

    pub(super) fn evicts(&self) -> bool {
        self.max_turn_bytes < JournalLimits::MAX_TURN_BYTES
    }

    pub(super) fn expires(&self) -> bool {
        self.keep < Duration::from_secs(10)
    }
}

/// What a writer has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    pub(super) id: Option<TurnId>,
    pub(super) host: usize,
    /// All texts that it has tried to send.
    pub(super) text: String,
    /// The end that it has given the turn; `None` if it did not come to that.
    pub(super) end: Option<End>,
    /// Whether a stop was accepted.
    pub(super) is_stopped: bool,
    /// Whether a stop was tried. Where replies are lost, it may have stopped the turn anyway.
    pub(super) is_stop_sent: bool,
    pub(super) ends_without_readers: bool,
    pub(super) histories: Vec<History>,
}

/// What one or several runs have shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) turns: u64,
    pub(super) rejected: u64,
    pub(super) frames: u64,
    pub(super) visits: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) stopped: u64,
    pub(super) interrupted: u64,
    pub(super) notices: u64,
    pub(super) partitions: u64,
    pub(super) crashes: u64,
    pub(super) restarts: u64,
    pub(super) refusals: u64,
    pub(super) late_requests: u64,
    pub(super) lost_requests: u64,
    pub(super) lost_replies: u64,
    pub(super) requests: u64,
    pub(super) fingerprint: u64,
}

impl Report {
    pub(super) fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.rejected += other.rejected;
        self.frames += other.frames;
        self.visits += other.visits;
        self.completed += other.completed;
        self.failed += other.failed;
        self.stopped += other.stopped;
        self.interrupted += other.interrupted;
        self.notices += other.notices;
        self.partitions += other.partitions;
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.refusals += other.refusals;
        self.late_requests += other.late_requests;
        self.lost_requests += other.lost_requests;
        self.lost_replies += other.lost_replies;
        self.requests += other.requests;
        self.fingerprint ^= other.fingerprint;
    }

    pub(super) fn count(&mut self, counts: Counts) {
        self.late_requests = counts.late;
        self.lost_requests = counts.lost_requests;
        self.lost_replies = counts.lost_replies;
        self.requests = counts.requests;
    }

    pub(super) fn assert_covers_everything(&self) {
        let rare = [
            self.rejected,
            self.completed,
            self.failed,
            self.stopped,
            self.interrupted,
            self.notices,
            self.partitions,
            self.crashes,
            self.restarts,
            self.refusals,
            self.late_requests,
            self.lost_requests,
            self.lost_replies,
        ];
        assert!(rare.iter().all(|count| *count > 0), "{self:?}");
    }
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) network: Arc<Network>,
    pub(super) hosts: Vec<Journal>,
    state: Mutex<State>,
    crashed: tokio::sync::Notify,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) written: Vec<Written>,
    /// Hosts that have died.
    pub(super) dead: Vec<usize>,
    /// The tasks of dead hosts keep what they had: a process that dies closes nothing in order.
    graveyard: Vec<crate::Sink>,
}

impl World {
    pub(super) async fn new(plan: Plan) -> Arc<Self> {
        let network = Network::new(plan.hosts, plan.seed);
        let mut hosts = Vec::new();
        for host in 0..plan.hosts {
            let of_host = Arc::new(HostNetwork {
                network: Arc::clone(&network),
                host,
                connect_timeout: CONNECT_TIMEOUT,
            });
            let options = RedisOptions::new("redis://simulated")
                .unwrap()
                .network(of_host)
                .lease(plan.lease)
                .retry(plan.retry)
                .connect_timeout(CONNECT_TIMEOUT)
                .response_timeout(RESPONSE_TIMEOUT)
                .call_timeout(plan.lease + plan.retry);
            let limits = JournalLimits::default()
                .keep(plan.keep)
                .max_turn_bytes(plan.max_turn_bytes);
            hosts.push(Journal::redis(options, limits).await.unwrap());
        }
        let written = vec![Written::default(); plan.turns];
        Arc::new(Self {
            plan,
            network,
            hosts,
            state: Mutex::new(State {
                written,
                ..State::default()
            }),
            crashed: tokio::sync::Notify::new(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) async fn run(self: Arc<Self>) -> Report {
        let mut random = Seed::new(self.plan.seed ^ 0x5eed);
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        for turn in 0..self.plan.turns {
            let host = random.below(self.plan.hosts as u64) as usize;
            tasks.push(spawn(Arc::clone(&self).write(
                turn,
                host,
                Seed::new(random.number()),
            )));
            for reader in 0..1 + random.below(3) {
                let name = format!("reader {reader}");
                let random = Seed::new(random.number());
                tasks.push(spawn(Arc::clone(&self).read_from_anywhere(turn, name, random)));
            }
            if random.below(4) == 0 {
                tasks.push(spawn(Arc::clone(&self).stop(turn, Seed::new(random.number()))));
            }
        }
        let mut report = Report::default();
        faults::run(&self, &mut random, &mut report).await;
        let everyone = async {
            for task in tasks {
                task.await.unwrap();
            }
        };
        let bound = self.plan.bound();
        timeout(bound, everyone).await.unwrap_or_else(|_| {
            panic!(
                "not everything has ended {bound:?} after the last fault: {:?}",
                self.plan
            )
        });
        check::judge(&self, &mut report).await;
        report.count(self.network.counts());
        report.fingerprint = self.network.fingerprint();
        report
    }

    /// Lets a host die: it never reaches the server again, and its clients lose their connections.
    pub(super) fn crash(&self, host: usize) {
        self.network.cut(host, true);
        self.lock().dead.push(host);
        self.crashed.notify_waiters();
    }

    pub(super) fn is_alive(&self, host: usize) -> bool {
        !self.lock().dead.contains(&host)
    }

    /// Waits for `future`; returns `None` if the host dies before.
    async fn unless_dead<T>(&self, host: usize, future: impl Future<Output = T>) -> Option<T> {
        let dies = async {
            loop {
                let crashed = self.crashed.notified();
                if !self.is_alive(host) {
                    return;
                }
                crashed.await;
            }
        };
        tokio::select! {
            biased;
            () = dies => None,
            value = future => Some(value),
        }
    }

    /// Writes one turn. Its first reader is on the same host.
    async fn write(self: Arc<Self>, turn: usize, host: usize, mut random: Seed) {
        sleep(random.between(Duration::ZERO, BEGINNING)).await;
        let policy = match random.below(2) {
            // Longer than a reader takes to come back.
            0 => Disconnect::grace(Duration::from_secs(1)),
            _ => Disconnect::run_to_end(),
        };
        let (sink, pending) = Turn::builder()
            .journal(&self.hosts[host])
            .owner(OWNER)
            .lane(format!("lane {turn}"))
            .on_disconnect(policy)
            .commit_on(Commit::deadline(Duration::ZERO))
            .channel();
        let begun = self.unless_dead(host, pending.commit()).await;
        let Some(Ok(begun)) = begun else {
            self.lock().graveyard.push(sink);
            return;
        };
        {
            let mut state = self.lock();
            let written = &mut state.written[turn];
            (written.id, written.host) = (Some(begun.id()), host);
            written.ends_without_readers = policy != Disconnect::run_to_end();
        }
        let first = Arc::clone(&self).first_reader(turn, host, begun, Seed::new(random.number()));
        let first = spawn(first);
        let pauses = 1 + random.below(12);
        let silent_before = random.below(30);
        for text in 0..random.below(30) {
            if text == silent_before {
                let silence = sleep(random.between(Duration::ZERO, SILENCE));
                let _ = self.unless_dead(host, silence).await;
            }
            let most = WRITING.as_millis() as u64 / 30 / pauses;
            let pause = Duration::from_millis(random.below(most + 1) * pauses);
            // Some texts follow at once, so that they share an append.
            if random.below(3) > 0 && self.unless_dead(host, sleep(pause)).await.is_none() {
                break;
            }
            let words = "x".repeat(if random.below(12) == 0 {
                6000
            } else {
                random.below(40) as usize
            });
            let text = format!("{turn}.{text} {words};");
            self.lock().written[turn].text.push_str(&text);
            if !matches!(self.unless_dead(host, sink.send(text)).await, Some(Ok(()))) {
                break;
            }
        }
        if !self.is_alive(host) {
            self.lock().graveyard.push(sink);
        } else {
            let (given, end) = match random.below(8) {
                0 => (
                    sink.fail(Failure::new("cut", "It broke.")).is_ok(),
                    End::Failed("cut".into()),
                ),
                1 => (sink.stop().is_ok(), End::Stopped),
                _ => (sink.finish(Metadata::default()).is_ok(), End::Completed),
            };
            self.lock().written[turn].end = given.then_some(end);
        }
        first.await.unwrap();
    }

    async fn first_reader(self: Arc<Self>, turn: usize, host: usize, begun: Turn, mut random: Seed) {
        let mut history = History::new("first reader");
        self.visit(&mut history, (host, 0), begun, &mut random).await;
        self.read(turn, history, random).await;
    }

    async fn read_from_anywhere(self: Arc<Self>, turn: usize, name: String, mut random: Seed) {
        sleep(random.between(Duration::ZERO, Duration::from_secs(5))).await;
        self.read(turn, History::new(name), random).await;
    }

    /// Reads a turn to its end, on changing hosts, and stores what was received.
    async fn read(&self, turn: usize, mut history: History, mut random: Seed) {
        let Some(id) = self.id(turn).await else {
            return;
        };
        while !is_done(&history) {
            if !history.visits.is_empty() {
                sleep(random.between(Duration::ZERO, PATIENCE)).await;
            }
            let host = self.living_host(&mut random);
            let from = history.next();
            self.resume(&mut history, id, (host, from), &mut random).await;
        }
        self.lock().written[turn].histories.push(history);
    }

    /// Connects once, and reads until the client, the host or the stream ends that.
    pub(super) async fn resume(
        &self,
        history: &mut History,
        id: TurnId,
        (host, from): (usize, u64),
        random: &mut Seed,
    ) {
        let resumed = self.hosts[host].resume(id, OWNER, from);
        let ended = match self.unless_dead(host, resumed).await {
            Some(Ok(turn)) if !turn.is_empty() => {
                return self.visit(history, (host, from), turn, random).await;
            }
            Some(Ok(_)) => VisitEnd::NothingLeft,
            Some(Err(error)) => VisitEnd::Refused(match error {
                ResumeError::Unknown(_) => 404,
                ResumeError::Lost => 409,
                ResumeError::Gone { .. } => 410,
                ResumeError::Ahead { .. } => 416,
                ResumeError::Unavailable => 503,
            }),
            None => VisitEnd::Disconnected,
        };
        history.visits.push(Visit {
            from,
            frames: Vec::new(),
            ended,
        });
    }

    async fn visit(&self, history: &mut History, (host, from): (usize, u64), turn: Turn, random: &mut Seed) {
        // The last visits of a client read on, so that it comes to the end.
        let most = match random.below(2) {
            0 if history.visits.len() < MAX_VISITS => random.below(12) as usize,
            _ => usize::MAX,
        };
        let mut stream = turn.stream(&Ndjson::default());
        let (mut frames, mut buffer) = (Vec::new(), Vec::new());
        let mut ended = VisitEnd::Disconnected;
        while frames.len() < most {
            match self.unless_dead(host, stream.next()).await {
                Some(Some(bytes)) => buffer.extend_from_slice(&bytes),
                Some(None) => ended = VisitEnd::Complete,
                None => {}
            }
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                // A keep-alive is an empty line.
                if line.len() > 1 {
                    frames.push(ReceivedFrame::from_line(&line[..end]).unwrap());
                }
            }
            if ended == VisitEnd::Complete || !self.is_alive(host) {
                break;
            }
        }
        for frame in &frames {
            self.network.trace(&frame.bytes);
        }
        history.visits.push(Visit { from, frames, ended });
    }

    async fn stop(self: Arc<Self>, turn: usize, mut random: Seed) {
        sleep(random.between(Duration::ZERO, WRITING)).await;
        let Some(id) = self.id(turn).await else {
            return;
        };
        self.lock().written[turn].is_stop_sent = true;
        for _ in 0..4 {
            let host = self.living_host(&mut random);
            match self.unless_dead(host, self.hosts[host].stop(id, OWNER)).await {
                Some(Ok(is_stopped)) => {
                    self.lock().written[turn].is_stopped = is_stopped;
                    return;
                }
                Some(Err(StopError::Unavailable)) | None => sleep(PATIENCE).await,
                Some(Err(StopError::Unknown(_))) => return,
            }
        }
    }

    pub(super) fn living_host(&self, random: &mut Seed) -> usize {
        let living: Vec<usize> = (0..self.plan.hosts).filter(|host| self.is_alive(*host)).collect();
        living[random.below(living.len() as u64) as usize]
    }

    /// Waits for the turn to begin; returns `None` if it does not.
    async fn id(&self, turn: usize) -> Option<TurnId> {
        let until = Instant::now() + self.plan.retry + Duration::from_secs(8);
        while Instant::now() < until {
            if let Some(id) = self.lock().written[turn].id {
                return Some(id);
            }
            sleep(Duration::from_millis(50)).await;
        }
        None
    }
}

/// Returns whether a client has no reason to connect again.
pub(super) fn is_done(history: &History) -> bool {
    let Some(last) = history.visits.last() else {
        return false;
    };
    match last.ended {
        VisitEnd::NothingLeft => true,
        // It may ask again, but not for ever.
        VisitEnd::Refused(503) => history.visits.len() > 3 * MAX_VISITS,
        VisitEnd::Refused(_) => true,
        VisitEnd::Complete | VisitEnd::Disconnected => {
            let end = last.frames.last().and_then(|frame| frame.end.as_ref());
            end.is_some_and(|end| *end != End::Failed("unavailable".into()))
                || history.visits.len() > 3 * MAX_VISITS
        }
    }
}
