//! How far a download is: a bar on a terminal, a line for each tenth elsewhere.

use std::io::IsTerminal;

use bytesize::ByteSize;
use hf_hub::api::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;

/// What is shown of one file, and what is told to whoever waits for it.
#[derive(Debug)]
pub(super) struct Shown {
    name: String,
    told: watch::Sender<u64>,
    bar: Option<ProgressBar>,
    size: u64,
    done: u64,
    /// Tenths that were shown.
    tenths: u64,
}

impl Shown {
    pub(super) fn new(name: &str, told: watch::Sender<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0));
        if let Some(bar) = &bar
            && let Ok(style) = ProgressStyle::with_template(
                "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta} {wide_msg}",
            )
        {
            bar.set_style(style);
            bar.set_message(name.to_owned());
        }
        Self {
            name: name.to_owned(),
            told,
            bar,
            size: 0,
            done: 0,
            tenths: 0,
        }
    }
}

impl Progress for Shown {
    /// Also at each new attempt, which begins with what is there already.
    fn init(&mut self, size: usize, _: &str) {
        (self.size, self.done) = (size as u64, 0);
        if let Some(bar) = &self.bar {
            bar.set_length(self.size);
            bar.set_position(0);
        }
        self.told.send_modify(|_| {});
    }

    fn update(&mut self, size: usize) {
        self.done += size as u64;
        self.told.send_replace(self.done);
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
            return;
        }
        let tenths = (self.done * 10).checked_div(self.size).unwrap_or(0).min(10);
        if tenths > self.tenths {
            self.tenths = tenths;
            eprintln!("{}: {}0 % of {}", self.name, tenths, ByteSize(self.size));
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
