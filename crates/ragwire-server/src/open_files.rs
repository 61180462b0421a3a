//! The operating system's limit on open files, compared with the limit on connections.

use crate::settings::Settings;

/// Files besides the connections: the library with its readers, sessions, documents and the processes
/// that read them, model servers, Redis.
const OTHER_FILES: usize = 100;

/// Raises the limit on open files to what the connections need, as far as the system allows, and
/// warns if that is too little.
pub(crate) fn provide(settings: &Settings) {
    let connections = *settings.max_connections;
    #[cfg(unix)]
    match rlimit::increase_nofile_limit((connections + OTHER_FILES) as u64) {
        Ok(limit) => {
            if let Some(warning) = warning(limit, connections) {
                tracing::warn!("{warning}");
            }
        }
        Err(error) => tracing::warn!(%error, "cannot read the limit on open files (ulimit -n)"),
    }
}

/// Returns a warning if `limit` open files are too few for the connections.
fn warning(limit: u64, connections: usize) -> Option<String> {
    let needed = connections + OTHER_FILES;
    (limit < needed as u64).then(|| {
        format!(
            "max-connections ({connections}) and other files need {needed} open files, but ulimit -n is {limit}: raise \
             ulimit -n to {needed}, or set max-connections to {}",
            limit.saturating_sub(OTHER_FILES as u64).max(1)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_reported_with_both_fixes() {
        assert_eq!(warning(1_024, 900), None);
        assert_eq!(warning(1_000, 900), None);
        for (limit, connections, fixes) in [
            (999, 900, ["ulimit -n to 1000", "max-connections to 899"]),
            (64, 900, ["ulimit -n to 1000", "max-connections to 1"]),
        ] {
            let warning = warning(limit, connections).unwrap();
            assert!(fixes.iter().all(|fix| warning.contains(fix)), "{warning}");
        }
    }
}
