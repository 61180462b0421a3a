//! The cost of a journal in memory compared with the same turn without one, in one run.
//!
//! - `append`: producer task to reader, 337 items, without a socket. `queue` is the turn without a
//!   journal and the baseline; `journal` is the same turn recorded, with its first reader;
//!   `journal, nobody reads` has no reader; `journal, 8 readers` has seven more, each of which
//!   wakes and encodes separately.
//! - `replay`: a finished turn, read again as bytes. `encode` encodes the same frames without a
//!   journal and is the baseline. `ndjson` and `framed` read all of it; `ndjson, last frame` and
//!   `framed, last frame` have seen everything but the end: there a wire with independent frames
//!   seeks, and the other encodes everything that the reader already has.
//!
//! `append` is limited by the recorder, a second task: a wake-up per batch and an `Arc` per frame.
//! `replay` is limited by the encoder.

mod workload;

use std::time::{Duration, Instant};

use bytes::BytesMut;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use futures_util::StreamExt;
use futures_util::future::join_all;
use ragwire::turn::{Disconnect, Journal, JournalLimits, Turn, TurnBuilder, TurnGroup};
use ragwire::wire::{Decode, Wire};
use ragwire::{Frame, Framed, Metadata, Ndjson, SendError, Sink, TurnId};
use tokio::runtime::Runtime;

/// The number of readers of the turn with many readers.
const READERS: usize = 8;

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(30);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    append(&mut criterion, &runtime);
    replay(&mut criterion, &runtime);
    ratios(&runtime);
    criterion.final_summary();
}

async fn answer(sink: Sink) -> Result<Metadata, SendError> {
    for event in workload::events() {
        sink.send(event).await?;
    }
    for text in workload::texts() {
        sink.send(text).await?;
    }
    Ok(workload::metadata())
}

async fn read(turn: Turn, wire: &impl Wire) {
    let mut stream = turn.stream(wire);
    while let Some(chunk) = stream.next().await {
        std::hint::black_box(chunk);
    }
}

/// One turn of each kind, from its start to the last byte of its last reader.
async fn run(kind: &str) {
    let journal = Journal::in_memory(JournalLimits::default());
    let group = TurnGroup::new(1);
    let builder = match kind {
        "queue" => Turn::builder(),
        _ => kept(&journal),
    };
    let builder = builder.group(&group);
    let turn = builder
        .start(answer)
        .commit()
        .await
        .expect("the workload commits");
    let id = turn.id();
    match kind {
        "journal, nobody reads" => {
            drop(turn);
            group.drained().await;
        }
        "journal, 8 readers" => {
            let mut readers = vec![turn];
            while readers.len() < READERS {
                readers.push(journal.resume(id, "", 0).await.expect("the turn is kept"));
            }
            let wire = Ndjson::default();
            join_all(readers.into_iter().map(|turn| read(turn, &wire))).await;
        }
        _ => read(turn, &Ndjson::default()).await,
    }
}

fn kept(journal: &Journal) -> TurnBuilder {
    Turn::builder()
        .journal(journal)
        .on_disconnect(Disconnect::run_to_end())
}

const APPENDS: [&str; 4] = ["queue", "journal", "journal, nobody reads", "journal, 8 readers"];

fn append(criterion: &mut Criterion, runtime: &Runtime) {
    let mut group = criterion.benchmark_group("append, 337 items");
    for kind in APPENDS {
        group.bench_function(kind, |bencher| {
            bencher.iter(|| runtime.block_on(run(kind)));
        });
    }
    group.finish();
}

/// A finished turn in the journal.
struct Over {
    journal: Journal,
    id: TurnId,
    /// The frames as recorded, with adjacent texts joined.
    frames: Vec<Frame>,
}

impl Over {
    fn new(runtime: &Runtime) -> Self {
        let journal = Journal::in_memory(JournalLimits::default());
        runtime.block_on(async {
            let turn = kept(&journal)
                .start(|sink| async move {
                    for event in workload::events() {
                        sink.send(event).await?;
                    }
                    for text in workload::texts() {
                        sink.send(text).await?;
                        // Otherwise all texts become one frame.
                        tokio::task::yield_now().await;
                    }
                    Ok::<_, SendError>(workload::metadata())
                })
                .commit()
                .await
                .expect("the workload commits");
            let id = turn.id();
            let mut decoder = Ndjson::default().decoder();
            let mut stream = turn.stream(&Ndjson::default());
            let mut frames = Vec::new();
            while let Some(chunk) = stream.next().await {
                decoder.feed(&chunk);
                frames.extend(decoder.by_ref().map(|frame| frame.expect("our own bytes")));
            }
            Self { journal, id, frames }
        })
    }

    async fn read(&self, wire: &impl Wire, from: u64) {
        let turn = self
            .journal
            .resume(self.id, "", from)
            .await
            .expect("the turn is kept");
        read(turn, wire).await;
    }

    fn encode(&self, wire: &impl Wire) {
        let mut encoder = wire.encoder();
        let mut out = BytesMut::new();
        for frame in &self.frames {
            encoder.encode(frame, &mut out).expect("the workload is legal");
        }
        std::hint::black_box(out);
    }
}

fn replay(criterion: &mut Criterion, runtime: &Runtime) {
    let over = Over::new(runtime);
    let last = over.frames.len() as u64 - 1;
    let mut group = criterion.benchmark_group(format!("replay, {} frames", over.frames.len()));
    group.bench_function("encode ndjson", |bencher| {
        bencher.iter(|| over.encode(&Ndjson::default()))
    });
    reads(&mut group, runtime, &over, ("ndjson", 0), &Ndjson::default());
    reads(
        &mut group,
        runtime,
        &over,
        ("ndjson, last frame", last),
        &Ndjson::default(),
    );
    group.bench_function("encode framed", |bencher| {
        bencher.iter(|| over.encode(&Framed::default()))
    });
    reads(&mut group, runtime, &over, ("framed", 0), &Framed::default());
    reads(
        &mut group,
        runtime,
        &over,
        ("framed, last frame", last),
        &Framed::default(),
    );
    group.finish();
}

fn reads(
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    over: &Over,
    (name, from): (&str, u64),
    wire: &impl Wire,
) {
    group.bench_function(name, |bencher| {
        bencher.iter(|| runtime.block_on(over.read(wire, from)));
    });
}

/// Compares the variants, measured in alternation so that load on the machine affects all of them.
fn ratios(runtime: &Runtime) {
    let over = Over::new(runtime);
    let frames = over.frames.len();
    let appends = APPENDS.map(|kind| median(|| runtime.block_on(run(kind))));
    println!("\na turn of 337 items, median of 7 x 200");
    for (kind, time) in APPENDS.iter().zip(appends) {
        print_ratio(kind, time, appends[0]);
    }
    let encode = median(|| over.encode(&Ndjson::default()));
    println!("\nreplay of {frames} frames as NDJSON, median of 7 x 200");
    print_ratio("encode", encode, encode);
    print_ratio(
        "replay",
        median(|| runtime.block_on(over.read(&Ndjson::default(), 0))),
        encode,
    );
}

fn print_ratio(kind: &str, time: Duration, baseline: Duration) {
    println!(
        "{kind:>24}  {:8.1} us   {:5.2} x",
        time.as_secs_f64() * 1e6,
        time.as_secs_f64() / baseline.as_secs_f64()
    );
}

fn median(mut once: impl FnMut()) -> Duration {
    const TIMES: u32 = 200;
    let mut rounds = [Duration::ZERO; 7];
    for round in &mut rounds {
        let begun = Instant::now();
        for _ in 0..TIMES {
            once();
        }
        *round = begun.elapsed() / TIMES;
    }
    rounds.sort_unstable();
    rounds[3]
}
