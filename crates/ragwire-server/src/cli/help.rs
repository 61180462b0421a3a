//! The settings as flags: in groups, with their defaults, and the few that `-h` shows.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::settings::{Options, Settings};

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

/// The flags of all settings, in the order of their groups.
#[derive(Debug, Default)]
pub(super) struct Grouped(pub(super) Options);

impl Args for Grouped {
    fn augment_args(command: Command) -> Command {
        command.args(arguments())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Grouped {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Options::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Returns the flags with group, kind of value and default. Help shows groups in the order of their
/// first flags.
fn arguments() -> Vec<Arg> {
    let defaults = Settings::defaults_for_help();
    let plain = Options::augment_args(Command::new("settings"));
    let mut arguments: Vec<Arg> = plain
        .get_arguments()
        .cloned()
        .map(|argument| {
            let id = argument.get_id().to_string();
            let argument = argument
                .help_heading(heading(&id))
                .hide_short_help(!COMMON.contains(&id.as_str()));
            let Some((_, kind, default)) = defaults.iter().find(|(name, ..)| *name == id) else {
                return argument;
            };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            // `none` would read like a value to write.
            match default.as_str() {
                "none" => argument.value_name(kind),
                default => argument
                    .value_name(kind)
                    .help(format!("{help} [default: {default}]")),
            }
        })
        .collect();
    arguments.sort_by_key(|argument| rank(argument.get_help_heading()));
    arguments
}

/// What `ingest` uses besides the groups [`INDEXING`].
const INDEXING_TOO: [&str; 6] = [
    "config",
    "docs",
    "data",
    "log_format",
    "max_documents",
    "max_chunks",
];
/// The groups of settings that `ingest` uses.
const INDEXING: [&str; 2] = ["Models", "Library"];

/// Leaves out of the help of `ingest` what only a server uses. The flags stay, so that both can have
/// the same.
pub(super) fn of_ingest(command: Command) -> Command {
    let others: Vec<_> = command
        .get_arguments()
        .filter(|argument| {
            argument
                .get_help_heading()
                .is_some_and(|name| !INDEXING.contains(&name))
        })
        .map(|argument| argument.get_id().to_string())
        .filter(|id| !INDEXING_TOO.contains(&id.as_str()))
        .collect();
    others.into_iter().fold(command, |command, id| {
        command.mut_arg(&id, |argument| argument.hide(true))
    })
}

/// The groups in the order of a settings file, and the prefixes of the settings in each. The first
/// that fits applies.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        COMMON_HEADING,
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
    (
        "Library",
        &["store", "qdrant", "graph", "extract", "ocr", "originals"],
    ),
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
/// The group of the settings that most servers need.
pub(super) const COMMON_HEADING: &str = "Common";
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

    #[test]
    fn help_has_each_group_once_and_in_order() {
        let help = super::super::command().render_long_help().to_string();
        let names = super::GROUPS.map(|(name, _)| format!("\n{name}:\n"));
        let places: Vec<_> = names.iter().map(|name| help.find(name)).collect();
        assert!(
            places.is_sorted() && places.iter().all(Option::is_some),
            "{places:?}"
        );
    }

    #[test]
    fn ingest_shows_what_it_uses() {
        let mut command = super::super::command();
        let ingest = command.find_subcommand_mut("ingest").unwrap();
        let help = ingest.render_long_help().to_string();
        for (flag, is_used) in [
            ("--data", true),
            ("--store", true),
            ("--embedder-url", true),
            ("--max-chunks", true),
            ("--listen", false),
            ("--max-turns", false),
            ("--keep-alive", false),
            ("--redis", false),
        ] {
            assert_eq!(help.contains(&format!(" {flag} <")), is_used, "{flag}");
        }
    }
}
