//! Shows the progress: a bar on a terminal, otherwise one line per file.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::output::report_line;

/// The display on stderr.
#[derive(Debug)]
pub(super) enum Progress {
    Bar(ProgressBar),
    Lines,
}

impl Progress {
    pub(super) fn new(files: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::new(files as u64);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self::Bar(bar)
    }

    pub(super) fn done(&self, name: &str, outcome: &str) {
        match self {
            Self::Bar(bar) => {
                bar.set_message(name.to_owned());
                bar.inc(1);
            }
            Self::Lines => report_line!("{name}: {outcome}"),
        }
    }

    /// A skipped file. Lines leave it to the summary, which names it with the reason.
    pub(super) fn skipped(&self, name: &str) {
        if let Self::Bar(bar) = self {
            bar.set_message(name.to_owned());
            bar.inc(1);
        }
    }

    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
