//! The other side of the comparison: `scripts/gpu/lockstep.cpp`, a separate program on the same
//! llama.cpp, which measures one line of its input at a time.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::{Case, Cpu, Run, Setup};

/// Which part of llama.cpp's work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The work of llama-batched-bench: separate cells for each sequence, and the logits are not
    /// read.
    Bare,
    /// Separate cells, and a token chosen from each row of logits.
    Own,
    /// Shared cells, and a token chosen from each row of logits: the least that an engine has to
    /// do.
    Shared,
}

/// A model loaded by the other program.
#[derive(Debug)]
pub(crate) struct Lockstep {
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The devices that llama.cpp found.
    pub(crate) devices: String,
}

impl Lockstep {
    pub(crate) fn start(program: &Path, model: &Path, setup: &Setup) -> Self {
        let number = |number: u32| number.to_string();
        let mut process = Command::new(program)
            .arg("--model")
            .arg(model)
            .args(["--cells", &number(setup.cells())])
            .args(["--sequences", &number(setup.most_turns)])
            .args(["--step", &number(setup.step)])
            .args(["--threads", &number(setup.threads)])
            .args(["--gpu-layers", &number(setup.gpu_layers)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let asks = process.stdin.take().expect("a pipe to stdin");
        let answers = BufReader::new(process.stdout.take().expect("a pipe from stdout"));
        let mut started = Self {
            process,
            asks,
            answers,
            devices: String::new(),
        };
        let ready = started.line();
        started.devices = ready
            .strip_prefix("ready ")
            .expect("lockstep is ready")
            .to_owned();
        started
    }

    pub(crate) fn run(&mut self, mode: Mode, case: &Case) -> Run {
        let words = match mode {
            Mode::Bare => "own none",
            Mode::Own => "own greedy",
            Mode::Shared => "shared greedy",
        };
        let Case {
            turns,
            prompt_tokens,
            answer_tokens,
        } = *case;
        writeln!(self.asks, "{words} {prompt_tokens} {answer_tokens} {turns}")
            .expect("lockstep accepts input");
        self.asks.flush().expect("lockstep accepts input");
        let line = self.line();
        let seconds: Vec<f64> = line
            .split(' ')
            .map(|number| number.parse().expect("seconds"))
            .collect();
        let [prompts, answers, cpu] = seconds[..] else {
            panic!("{line}")
        };
        Run {
            prompt_rate: case.prompts() / prompts,
            answer_rate: case.answers() / answers,
            seconds: prompts + answers,
            cpu: Cpu {
                model: cpu,
                others: 0.0,
            },
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("lockstep answers");
        assert!(!line.is_empty(), "lockstep has ended");
        line.trim_end().to_owned()
    }
}

impl Drop for Lockstep {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
