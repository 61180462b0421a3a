//! How far the store is filled: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ragwire_rag::IndexingProgress;

/// Between two lines where there is no terminal: enough to see that it goes on.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What is shown.
#[derive(Debug)]
pub(super) struct Shown {
    bar: Option<ProgressBar>,
    line: Instant,
}

impl Shown {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0));
        if let Some(bar) = &bar
            && let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} chunks indexed {eta}")
        {
            bar.set_style(style);
        }
        Self {
            bar,
            line: Instant::now(),
        }
    }

    pub(super) fn at(&mut self, progress: IndexingProgress) {
        let IndexingProgress {
            done_chunks,
            total_chunks,
            ..
        } = progress;
        if let Some(bar) = &self.bar {
            bar.set_length(total_chunks as u64);
            bar.set_position(done_chunks as u64);
        } else if self.line.elapsed() >= LINE_EVERY {
            self.line = Instant::now();
            eprintln!("{done_chunks} of {total_chunks} chunks are indexed");
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
