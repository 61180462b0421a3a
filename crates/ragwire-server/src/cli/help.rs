//! Groups of settings in `--help`, and the few that `-h` shows.

/// The settings that a new user needs. `-h` shows no others.
const COMMON: [&str; 8] = [
    "config",
    "docs",
    "listen",
    "data",
    "llm_url",
    "llm_model",
    "redis",
    "orchestrator",
];

/// Puts each setting into its group and leaves only the common ones in `-h`.
pub(super) fn in_groups(command: clap::Command) -> clap::Command {
    let settings: Vec<_> = command
        .get_arguments()
        .map(|argument| argument.get_id().to_string())
        .filter(|id| !["help", "version", "paths"].contains(&id.as_str()))
        .collect();
    settings.into_iter().fold(command, |command, id| {
        command.mut_arg(&id, |argument| {
            let argument = argument.help_heading(heading(&id));
            argument.hide_short_help(!COMMON.contains(&id.as_str()))
        })
    })
}

/// The groups in the order of a settings file, and the prefixes of the settings in each. The first
/// that fits applies.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        "Common",
        &[
            "config",
            "docs",
            "watch",
            "listen",
            "data",
            "drain",
            "log_format",
            "otlp",
        ],
    ),
    (
        "Models",
        &["llm", "log_upstream", "embedder", "reranker", "judge"],
    ),
    ("Library", &["store", "qdrant", "graph", "extract", "originals"]),
    ("Several hosts", &["redis"]),
    ("Orchestrator in place of the library", &["orchestrator"]),
    ("Access", &["allow", "owner", "api_keys", "tls", "pad_to"]),
    (
        "Answers and conversations",
        &["journal", "disconnect", "max_session", "session"],
    ),
    (TIME_OUTS, &["keep_alive"]),
    ("Limits", &["max_", "min_", "client_share"]),
];
const TIME_OUTS: &str = "Time-outs";
const OTHER: &str = "Other";

fn heading(id: &str) -> &'static str {
    let group = GROUPS
        .iter()
        .find(|(_, prefixes)| prefixes.iter().any(|prefix| id.starts_with(prefix)));
    match group {
        Some((heading, _)) => heading,
        None if id.ends_with("_timeout") => TIME_OUTS,
        None => OTHER,
    }
}

/// Returns the place of a group in a settings file.
pub(super) fn rank(heading: Option<&str>) -> usize {
    let place = GROUPS.iter().position(|(name, _)| heading == Some(*name));
    place.unwrap_or(GROUPS.len())
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_setting_has_a_group() {
        let command = super::super::command();
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let id = argument.get_id().as_str();
            if !["help", "version"].contains(&id) {
                assert_ne!(argument.get_help_heading(), Some(super::OTHER), "{id}");
            }
        }
        let shown = command.get_arguments().map(|argument| argument.get_id().as_str());
        let shown: Vec<_> = shown.collect();
        assert!(
            super::COMMON.iter().all(|common| shown.contains(common)),
            "{shown:?}"
        );
    }
}
