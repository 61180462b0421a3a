//! Shows how much of the library is indexed: a bar on a terminal, otherwise a line every 10
//! seconds.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ragwire_rag::IndexingProgress;

use crate::output::report_line;

/// Pause between two lines: often enough to see that the work continues.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The display on stderr. Dropping it removes the bar.
#[derive(Debug)]
pub(super) struct ProgressDisplay {
    bar: Option<ProgressBar>,
    last_line: Instant,
}

impl ProgressDisplay {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0));
        if let Some(bar) = &bar
            && let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} chunks indexed {eta}")
        {
            bar.set_style(style);
        }
        Self {
            bar,
            last_line: Instant::now(),
        }
    }

    pub(super) fn update(&mut self, progress: IndexingProgress) {
        let IndexingProgress {
            done_chunks,
            total_chunks,
            ..
        } = progress;
        if let Some(bar) = &self.bar {
            bar.set_length(total_chunks as u64);
            bar.set_position(done_chunks as u64);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            report_line!("indexed {done_chunks} of {total_chunks} chunks");
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
