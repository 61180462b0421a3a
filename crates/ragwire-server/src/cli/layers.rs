//! Lays the sources of settings over each other: flag, environment, file, default, in this order.
//!
//! The environment is read with the same parser as the flags: `RAGWIRE_MAX_TURNS=8` is `--max-turns=8`. So every flag is also a
//! variable, and a value means the same in both.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches};

use super::settings::{Contradiction, Options, Settings};

/// What the environment variables of this program begin with.
pub const PREFIX: &str = "RAGWIRE_";

/// Why the settings cannot be used. The program ends with status 2 then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A variable that no flag goes by.
    #[error(
        "unknown environment variable {0}; `ragwire-server --help` lists the flags, and each is a variable"
    )]
    UnknownVariable(String),
    /// A variable with a value that its flag would refuse.
    #[error("environment variable {name}: {reason}")]
    BadVariable {
        /// The variable.
        name: String,
        /// Why its value was refused.
        reason: String,
    },
    /// The file could not be read.
    #[error("settings file {path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why: unreadable, no TOML, an unknown key, a bad value.
        reason: String,
    },
    /// A key as a flag.
    #[error(
        "--{name} shows to everybody on this machine; set {variable}, or the key `{name}` of the settings file"
    )]
    Shown {
        /// The flag.
        name: &'static str,
        /// The variable to set instead.
        variable: String,
    },
    /// Values that cannot hold together.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}

/// The variables of this program, as they stand in an environment.
pub type Variables = Vec<(OsString, OsString)>;

/// The variables of the process that are ours.
pub fn variables() -> Variables {
    std::env::vars_os()
        .filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX))
        .collect()
}

/// Settings from all their sources.
///
/// # Errors
///
/// [`SettingsError`].
pub fn settle(
    flags: Options,
    config: Option<&Path>,
    environment: Options,
) -> Result<Settings, SettingsError> {
    let file = config.map(from_file).transpose()?.unwrap_or_default();
    let settings = Settings::from(flags.over(environment).over(file));
    settings.check()?;
    Ok(settings)
}

/// Keys that come from a variable or the file, never from a flag.
pub const SECRETS: [&str; 2] = ["llm-key", "qdrant-api-key"];

/// Looks for keys among the flags.
///
/// # Errors
///
/// [`SettingsError::Shown`]
pub fn no_secrets(flags: &Options) -> Result<(), SettingsError> {
    let given = [&flags.llm_key, &flags.qdrant_api_key];
    let shown = SECRETS.into_iter().zip(given).find(|(_, given)| given.is_some());
    shown.map_or(Ok(()), |(name, _)| {
        let variable = format!("{PREFIX}{}", name.replace('-', "_").to_ascii_uppercase());
        Err(SettingsError::Shown { name, variable })
    })
}

/// What the settings file says.
///
/// # Errors
///
/// [`SettingsError::File`].
pub fn from_file(path: &Path) -> Result<Options, SettingsError> {
    let failed = |reason: String| SettingsError::File {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    toml::from_str(&text).map_err(|error| failed(without_address(&error, &text)))
}

/// What the parser says, which shows the line: but not one with an address, where a password may stand, or with a key.
fn without_address(error: &toml::de::Error, text: &str) -> String {
    let shown = error.to_string();
    // An unknown key is told with all that there are.
    let excerpt = shown.replace(error.message(), "");
    if !shown.contains("://") && !SECRETS.iter().any(|name| excerpt.contains(name)) {
        return shown;
    }
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
    match error.message() {
        message if message.contains("://") => format!("line {line} is not valid"),
        message => format!("line {line}: {message}"),
    }
}

/// What the environment says for the arguments `A`. Variables in `others` belong to other commands and are passed over.
///
/// # Errors
///
/// [`SettingsError::UnknownVariable`], [`SettingsError::BadVariable`].
pub fn from_environment<A: Args + FromArgMatches>(
    variables: &Variables,
    others: &Command,
) -> Result<A, SettingsError> {
    let command = A::augment_args(Command::new("environment").no_binary_name(true));
    let mut arguments = Vec::new();
    for (name, value) in variables {
        let shown = name.to_string_lossy().into_owned();
        let flag = shown[PREFIX.len()..].to_ascii_lowercase().replace('_', "-");
        // Windows has no lower case in names of variables; elsewhere a name in lower case is a mistake.
        let spelled = cfg!(windows) || !shown.contains(|letter: char| letter.is_ascii_lowercase());
        let Some(argument) = find(&command, &flag).filter(|_| spelled) else {
            if spelled && find_anywhere(others, &flag) {
                continue;
            }
            return Err(SettingsError::UnknownVariable(shown));
        };
        let many = argument
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1);
        let values = if many {
            split(&flag, value)
        } else {
            vec![value.clone()]
        };
        let own: Vec<_> = values.iter().map(|value| assignment(&flag, value)).collect();
        // Each by itself first, so that the error can name the variable.
        if let Err(error) = command.clone().try_get_matches_from(&own) {
            return Err(SettingsError::BadVariable {
                name: shown,
                reason: reason_of(&error),
            });
        }
        arguments.extend(own);
    }
    let matches = command.try_get_matches_from(arguments);
    matches
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| SettingsError::BadVariable {
            name: PREFIX.to_owned(),
            reason: reason_of(&error),
        })
}

fn find<'a>(command: &'a Command, flag: &str) -> Option<&'a clap::Arg> {
    command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(flag))
}

fn find_anywhere(command: &Command, flag: &str) -> bool {
    find(command, flag).is_some()
        || command
            .get_subcommands()
            .any(|command| find_anywhere(command, flag))
}

/// A list in one variable: paths as in `PATH`, the rest with commas.
fn split(flag: &str, value: &OsStr) -> Vec<OsString> {
    if flag == "docs" {
        return std::env::split_paths(value)
            .map(PathBuf::into_os_string)
            .collect();
    }
    let text = value.to_string_lossy();
    text.split(',').map(|item| item.trim().into()).collect()
}

fn assignment(flag: &str, value: &OsStr) -> OsString {
    let mut argument = OsString::from(format!("--{flag}="));
    argument.push(value);
    argument
}

/// What clap says, without its own `error:` and usage.
fn reason_of(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.lines().next().unwrap_or_default().to_owned()
}
