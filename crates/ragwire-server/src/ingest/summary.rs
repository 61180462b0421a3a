//! The outcome for the files of a run.

use std::path::{Path, PathBuf};

use crate::output::report_line;

/// Number of skipped files that the summary lists by name.
const MAX_LISTED: usize = 20;

/// The outcome for a number of files.
#[derive(Debug, Default)]
pub struct Summary {
    /// New or changed documents.
    pub added: usize,
    /// Documents that the library already had.
    pub unchanged: usize,
    /// Documents that were removed, because their files were deleted or can no longer be read.
    pub removed: usize,
    /// Files that were skipped, with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

impl Summary {
    /// Returns whether the library is a different one now.
    pub fn has_changes(&self) -> bool {
        self.added > 0 || self.removed > 0
    }

    /// Prints the summary to stderr.
    pub fn print(&self) {
        for (path, reason) in self.skipped.iter().take(MAX_LISTED) {
            report_line!("skipped {}: {reason}", printable(path));
        }
        if let Some(more) = self
            .skipped
            .len()
            .checked_sub(MAX_LISTED)
            .filter(|more| *more > 0)
        {
            report_line!("skipped {more} more");
        }
        let removed = match self.removed {
            0 => String::new(),
            removed => format!(", {removed} removed"),
        };
        report_line!(
            "{} indexed, {} unchanged, {} skipped{removed}",
            self.added,
            self.unchanged,
            self.skipped.len()
        );
    }
}

/// Returns a path as one line for a terminal.
fn printable(path: &Path) -> String {
    path.display()
        .to_string()
        .replace(|letter: char| letter.is_control(), "\u{fffd}")
}
