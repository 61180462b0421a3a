//! Measures the tokens per second of many concurrent turns next to llama.cpp itself with the same
//! model, and what streaming costs in addition. With `--vectors`, measures an embedder instead.
//!
//! ```sh
//! cargo bench -p ragwire-rag --bench engine --features llama -- --turns 1,8,32                          # a small model on the CPU
//! cargo bench -p ragwire-rag --bench engine --features llama -- --write 8b model.gguf                   # writes a model and exits
//! cargo bench -p ragwire-rag --bench engine --features llama -- --model model.gguf --lockstep PROGRAM   # with the comparison
//! ```
//!
//! `scripts/gpu` builds the program of the comparison and runs everything; its scripts list the
//! other requirements. One run alternates between:
//!
//! | row | what is done |
//! |---|---|
//! | `batched-bench` | what llama-batched-bench does: all prompts, then all answers in lockstep; each sequence has separate cells, no token is chosen |
//! | `own cells` | the same, and the likeliest token chosen from each row of logits |
//! | `shared cells` | the same with cells that all sequences share |
//! | `engine` | `LlamaEngine`, each generation read as it arrives |
//! | `turns` | the same prompts as turns: a writer on the engine, its text sent through sink and queue on the framed wire, over loopback, and decoded |
//!
//! Prompt tokens per second are counted until the last prompt is fed; answer tokens over the steps
//! in which all sequences answer and nothing else happens; all tokens over the whole time. Figures
//! are medians of the rounds. Ratios are medians of each round's ratio, so a machine that slows
//! down during the run slows down both sides. On a machine that is shared with other work, compare
//! the ratio of CPU times instead of that of times. On an accelerator the ratio of CPU times means
//! nothing, because its thread waits.

mod lockstep;
mod shapes;
mod turns;
mod vectors;

use std::path::PathBuf;
use std::process::exit;

use lockstep::{Lockstep, Mode};
use ragwire_test_support::gguf::Kind;
use shapes::{SHAPES, Shape};
use turns::Turns;

const USAGE: &str = "options:
  --write SHAPE FILE   write a model of random weights and end: 30m, 60m, 1b, 3b or 8b
  --kind KIND          of its weights: q8 (the default), f16 or f32
  --model FILE         the model to measure; without it a 30m one in a temporary folder
  --lockstep PROGRAM   what to compare with; without it only the crate's own ways
  --turns N,N,…        at once: 1,8,32
  --prompt N           tokens of a prompt at least, 256 or more: 512
  --answer N           tokens of an answer: 128
  --rounds N           5
  --step N             tokens of a batch: 512
  --slice N            tokens of prompts in a step that answers share: as many as a step has
  --threads N          of the CPU: 2
  --gpu-layers N       999
  --vectors FILE       measures an embedder instead, on the CPU and on the GPU";

/// The names of what is compared, in the order of the table.
const WAYS: [&str; 5] = ["batched-bench", "own cells", "shared cells", "engine", "turns"];

/// The instructions of a writer and a little evidence have fewer tokens.
const LEAST_PROMPT: u32 = 256;

/// The settings that are the same for all measurements.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) most_turns: u32,
    pub(crate) prompt: u32,
    pub(crate) answer: u32,
    /// Number of tokens of one generation: its prompt and its answer.
    pub(crate) context: u32,
    pub(crate) step: u32,
    pub(crate) slice: u32,
    pub(crate) threads: u32,
    pub(crate) gpu_layers: u32,
}

impl Setup {
    /// Number of tokens of all generations.
    pub(crate) fn cells(&self) -> u32 {
        self.context * self.most_turns
    }
}

/// The number of turns and their size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) turns: u32,
    pub(crate) prompt_tokens: u32,
    pub(crate) answer_tokens: u32,
}

impl Case {
    pub(crate) fn prompts(&self) -> f64 {
        f64::from(self.turns * self.prompt_tokens)
    }

    pub(crate) fn answers(&self) -> f64 {
        f64::from(self.turns * self.answer_tokens)
    }
}

/// The result of one way in one round. Rates are in tokens per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) prompt_rate: f64,
    pub(crate) answer_rate: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu: Cpu,
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    /// Time of the threads that decode and choose tokens.
    pub(crate) model: f64,
    /// Time of all other threads: prompts, turns, sockets, readers.
    pub(crate) others: f64,
}

impl Cpu {
    fn all(&self) -> f64 {
        self.model + self.others
    }
}

struct Arguments {
    write: Option<(Shape, PathBuf)>,
    kind: Kind,
    model: Option<PathBuf>,
    lockstep: Option<PathBuf>,
    vectors: Option<PathBuf>,
    turns: Vec<u32>,
    rounds: usize,
    setup: Setup,
}

fn main() {
    let arguments = arguments();
    if let Some((shape, path)) = &arguments.write {
        shape
            .write(arguments.kind, path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    if let Some(path) = &arguments.vectors {
        runtime.block_on(vectors::compare(path, &arguments.setup, arguments.rounds));
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = arguments.model.clone().unwrap_or_else(|| {
        let path = folder.path().join("30m.gguf");
        SHAPES[0].write(arguments.kind, &path).expect("room for a model");
        path
    });
    runtime.block_on(compare(&arguments, &model));
}

async fn compare(arguments: &Arguments, model: &std::path::Path) {
    let setup = &arguments.setup;
    let mut lockstep = arguments
        .lockstep
        .as_deref()
        .map(|program| Lockstep::start(program, model, setup));
    let mut turns = Turns::start(model, setup).await;
    let bytes = std::fs::metadata(model).expect("the model").len();
    println!(
        "{} of {:.2} GB on {}; prompts of {} tokens, answers of {}, batches of {}; {} threads, {} layers on the GPU at most; medians of {} rounds\n",
        model.file_stem().unwrap_or_default().to_string_lossy(),
        bytes as f64 / 1e9,
        lockstep
            .as_ref()
            .map_or("its devices", |lockstep| &lockstep.devices),
        turns.prompt_tokens(),
        setup.answer,
        setup.step,
        setup.threads,
        setup.gpu_layers,
        arguments.rounds,
    );
    println!(
        "| turns | | prompt tokens/s | answer tokens/s | all tokens/s | to batched-bench | by CPU time |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut costs = Vec::new();
    // The first round is a warm-up.
    let mut first = 0;
    for &number in &arguments.turns {
        let case = Case {
            turns: number,
            prompt_tokens: turns.prompt_tokens(),
            answer_tokens: setup.answer,
        };
        let mut ways: [Vec<Run>; WAYS.len()] = Default::default();
        for round in first..=arguments.rounds {
            let mut order = [0, 1, 2, 3, 4];
            if round % 2 == 1 {
                order.reverse();
            }
            for way in order {
                let run = match (way, &mut lockstep) {
                    (0, Some(lockstep)) => lockstep.run(Mode::Bare, &case),
                    (1, Some(lockstep)) => lockstep.run(Mode::Own, &case),
                    (2, Some(lockstep)) => lockstep.run(Mode::Shared, &case),
                    (3, _) => turns.generations(&case).await,
                    (4, _) => turns.turns(&case).await,
                    _ => continue,
                };
                if round > 0 {
                    ways[way].push(run);
                }
            }
        }
        first = 1;
        report(&case, &ways);
        costs.push((number, costs_of(&ways[3], &ways[4])));
    }
    turns.shutdown().await;
    println!("\n| turns | streaming costs, of the time | of the CPU |\n|---|---|---|");
    for (number, [time, cpu]) in costs {
        println!("| {number} | {time} | {cpu} |");
    }
}

fn report(case: &Case, ways: &[Vec<Run>; WAYS.len()]) {
    for (name, runs) in WAYS.into_iter().zip(ways) {
        if runs.is_empty() {
            continue;
        }
        let of = |value: &dyn Fn(&Run) -> f64| median(runs.iter().map(value).collect());
        let all = case.prompts() + case.answers();
        let ratio = |value: &dyn Fn(&Run) -> f64| {
            let pairs = ways[0].iter().zip(runs);
            let ratios: Vec<f64> = pairs.map(|(bare, run)| value(bare) / value(run)).collect();
            if ratios.is_empty() {
                String::new()
            } else {
                format!("{:.3}", median(ratios))
            }
        };
        println!(
            "| {} | {name} | {:.0} | {:.1} | {:.1} | {} | {} |",
            case.turns,
            of(&|run| run.prompt_rate),
            of(&|run| run.answer_rate),
            of(&|run| all / run.seconds),
            ratio(&|run| run.seconds),
            ratio(&|run| run.cpu.all()),
        );
    }
}

/// Returns what turns cost in addition to generations, in time and in CPU time: the median, the
/// minimum and the maximum. Decoding costs the same either way, so only the CPU time of the other
/// threads is compared: other load on the machine does not affect it.
fn costs_of(engine: &[Run], turns: &[Run]) -> [String; 2] {
    let spread = |cost: &dyn Fn(&Run, &Run) -> f64| {
        let pairs = engine.iter().zip(turns);
        let mut costs: Vec<f64> = pairs.map(|(engine, turns)| cost(engine, turns) * 100.0).collect();
        costs.sort_by(f64::total_cmp);
        let (least, most) = (costs[0], costs[costs.len() - 1]);
        format!("{:+.2} % ({least:+.2} to {most:+.2})", median(costs))
    };
    [
        spread(&|engine, turns| turns.seconds / engine.seconds - 1.0),
        spread(&|engine, turns| (turns.cpu.others - engine.cpu.others) / engine.cpu.all()),
    ]
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[middle]
    } else {
        (numbers[middle - 1] + numbers[middle]) / 2.0
    }
}

fn arguments() -> Arguments {
    let mut arguments = Arguments {
        write: None,
        kind: Kind::Q8,
        model: None,
        lockstep: None,
        vectors: None,
        turns: vec![1, 8, 32],
        rounds: 5,
        setup: Setup {
            most_turns: 0,
            prompt: 512,
            answer: 128,
            context: 0,
            step: 512,
            slice: 0,
            threads: 2,
            gpu_layers: 999,
        },
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().unwrap_or_else(|| usage());
        let setup = &mut arguments.setup;
        match name.as_str() {
            // Cargo passes this argument.
            "--bench" => {}
            "--write" => {
                let shape = Shape::named(&value()).unwrap_or_else(|| usage());
                arguments.write = Some((shape, value().into()));
            }
            "--kind" => {
                arguments.kind = match value().as_str() {
                    "q8" => Kind::Q8,
                    "f16" => Kind::F16,
                    "f32" => Kind::F32,
                    _ => usage(),
                }
            }
            "--model" => arguments.model = Some(value().into()),
            "--lockstep" => arguments.lockstep = Some(value().into()),
            "--turns" => arguments.turns = value().split(',').map(number).collect(),
            "--rounds" => arguments.rounds = number(&value()) as usize,
            "--prompt" => setup.prompt = number(&value()),
            "--answer" => setup.answer = number(&value()),
            "--step" => setup.step = number(&value()),
            "--slice" => setup.slice = number(&value()),
            "--threads" => setup.threads = number(&value()),
            "--gpu-layers" => setup.gpu_layers = number(&value()),
            "--vectors" => arguments.vectors = Some(value().into()),
            _ => usage(),
        }
    }
    let setup = &mut arguments.setup;
    setup.most_turns = arguments.turns.iter().copied().max().unwrap_or_else(|| usage());
    if setup.slice == 0 {
        setup.slice = setup.step;
    }
    // A prompt is a little longer than requested, and a writer reserves at most half of the context
    // for the answer.
    let needed = (setup.prompt + 64 + setup.answer).max(2 * setup.answer);
    setup.context = needed.next_multiple_of(256);
    if arguments.turns.contains(&0)
        || setup.prompt < LEAST_PROMPT
        || arguments.rounds == 0
        || setup.answer < 2
    {
        usage();
    }
    arguments
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| usage())
}

fn usage() -> ! {
    eprintln!("{USAGE}");
    exit(2)
}
