//! Merges the sources of settings. A flag wins over the environment, the environment over the file,
//! and the file over the default.
//!
//! The environment is parsed like flags: `RAGWIRE_MAX_TURNS=8` is `--max-turns=8`. So every flag
//! has a variable, and a value means the same in both.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Command, FromArgMatches};

use super::{Contradiction, Options, Settings};

/// Prefix of the environment variables of this program.
pub const PREFIX: &str = "RAGWIRE_";

/// Settings that cannot be used. The program exits with status 2.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A variable whose value does not parse.
    #[error("environment variable {name}: {reason}")]
    BadVariable {
        /// The variable.
        name: String,
        /// Why its value does not parse.
        reason: String,
    },
    /// The file could not be read.
    #[error("settings file {path}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Unreadable, not TOML, an unknown key, or a bad value.
        reason: String,
    },
    /// An API key given as a flag.
    #[error(
        "every user of this machine can see --{name}; set {variable}, or the key `{name}` in the settings file"
    )]
    SecretInFlag {
        /// The flag.
        name: &'static str,
        /// The variable to set instead.
        variable: String,
    },
    /// Settings that contradict each other.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
}

/// Environment variables of this program.
pub type Variables = Vec<(OsString, OsString)>;

/// Returns the variables of this process that start with [`PREFIX`].
pub fn variables() -> Variables {
    std::env::vars_os()
        .filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX))
        .collect()
}

/// Merges the settings of all sources and checks them.
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

/// API keys, which come from a variable or the file, never from a flag.
pub const SECRETS: [&str; 5] = [
    "llm-key",
    "embedder-key",
    "reranker-key",
    "qdrant-api-key",
    "orchestrator-token",
];

/// Rejects API keys among the flags.
///
/// # Errors
///
/// [`SettingsError::SecretInFlag`]
pub fn no_secrets(flags: &Options) -> Result<(), SettingsError> {
    let values = [
        &flags.llm_key,
        &flags.embedder_key,
        &flags.reranker_key,
        &flags.qdrant_api_key,
        &flags.orchestrator_token,
    ];
    let secret = SECRETS.into_iter().zip(values).find(|(_, value)| value.is_some());
    secret.map_or(Ok(()), |(name, _)| {
        let variable = format!("{PREFIX}{}", name.replace('-', "_").to_ascii_uppercase());
        Err(SettingsError::SecretInFlag { name, variable })
    })
}

/// Reads the settings file.
///
/// # Errors
///
/// [`SettingsError::File`].
pub fn from_file(path: &Path) -> Result<Options, SettingsError> {
    let failed = |reason: String| SettingsError::File {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed(format!(
            "{error}; `ragwire-server config init` prints one to start from"
        )),
        _ => failed(error.to_string()),
    })?;
    toml::from_str(&text).map_err(|error| failed(redacted(&error, &text)))
}

/// Returns the parser's message, which quotes the line, unless the line has a URL, which may
/// contain a password, or an API key.
fn redacted(error: &toml::de::Error, text: &str) -> String {
    let shown = error.to_string();
    // The message for an unknown key lists all keys, including the secrets.
    let excerpt = shown.replace(error.message(), "");
    if !shown.contains("://") && !SECRETS.iter().any(|name| excerpt.contains(name)) {
        return match unknown_key(error.message()) {
            Some(short) => format!("{excerpt}{short}\n"),
            None => shown,
        };
    }
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(0, |before| before.matches('\n').count()) + 1;
    match error.message() {
        message if message.contains("://") => format!("line {line} is not valid"),
        message => format!("line {line}: {message}"),
    }
}

/// Shortens serde's message for an unknown key, which lists all of them, to the one that was probably
/// meant.
fn unknown_key(message: &str) -> Option<String> {
    let (key, known) = message
        .strip_prefix("unknown field `")?
        .split_once("`, expected one of ")?;
    let known = known.split(", ").map(|name| name.trim_matches('`'));
    let all = "`ragwire-server config init` lists all keys";
    Some(match nearest(key, known.map(str::to_owned)) {
        Some(name) => format!("unknown field `{key}`; did you mean `{name}`? {all}"),
        None => format!("unknown field `{key}`; {all}"),
    })
}

/// Returns the name that was probably meant.
fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    names
        .map(|name| (strsim::damerau_levenshtein(&name, wanted), name))
        .filter(|(distance, _)| *distance <= MAX_TYPOS)
        .min()
        .map(|(_, name)| name)
}

/// Parses the arguments `A` from the environment. Other variables are ignored; see
/// [`unknown_variables`].
///
/// # Errors
///
/// [`SettingsError::BadVariable`].
pub fn from_environment<A: Args + FromArgMatches>(variables: &Variables) -> Result<A, SettingsError> {
    let command = A::augment_args(Command::new("environment").no_binary_name(true));
    let mut arguments = Vec::new();
    for (name, value) in variables {
        let shown = name.to_string_lossy().into_owned();
        let Some(flag) = flag_of(&shown) else { continue };
        let Some(argument) = find(&command, &flag) else {
            continue;
        };
        let many = argument
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1);
        let values = if many {
            split(&flag, value)
        } else {
            vec![value.clone()]
        };
        let assigned: Vec<_> = values.iter().map(|value| assignment(&flag, value)).collect();
        // Each variable alone first, so that the error can name it.
        if let Err(error) = command.clone().try_get_matches_from(&assigned) {
            return Err(SettingsError::BadVariable {
                name: shown,
                reason: reason_of(&error),
            });
        }
        arguments.extend(assigned);
    }
    let matches = command.try_get_matches_from(arguments);
    matches
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| SettingsError::BadVariable {
            name: PREFIX.to_owned(),
            reason: reason_of(&error),
        })
}

/// Returns the name of the flag for a variable.
///
/// Windows ignores case in variable names; elsewhere a lower-case name is a mistake.
fn flag_of(variable: &str) -> Option<String> {
    let is_upper = cfg!(windows) || !variable.contains(|letter: char| letter.is_ascii_lowercase());
    is_upper.then(|| variable[PREFIX.len()..].to_ascii_lowercase().replace('_', "-"))
}

/// Returns a warning for each variable that is not a flag of any command, with the one that was
/// probably meant.
///
/// A warning and not an error: Kubernetes and Docker set variables for every service, named after
/// it, so that a service called `ragwire` would keep the server from starting. Those are recognised
/// and cause no warning.
pub fn unknown_variables(variables: &Variables, command: &Command) -> Vec<String> {
    let mut flags = Vec::new();
    collect_flags(command, &mut flags);
    let warning = |(name, value): &(OsString, OsString)| {
        let name = name.to_string_lossy();
        let flag = flag_of(&name);
        let is_known = flag.is_some_and(|flag| flags.contains(&flag));
        if is_known || is_of_a_container(&name, &value.to_string_lossy()) {
            return None;
        }
        let wanted = name.to_ascii_uppercase();
        let variables = flags
            .iter()
            .map(|flag| format!("{PREFIX}{}", flag.replace('-', "_").to_ascii_uppercase()));
        Some(match nearest(&wanted, variables) {
            Some(variable) => {
                format!("unknown environment variable {name} is ignored; did you mean {variable}?")
            }
            None => format!(
                "unknown environment variable {name} is ignored; each variable is a flag, and `ragwire-server --help` \
                 lists them"
            ),
        })
    };
    variables.iter().filter_map(warning).collect()
}

/// Most typing mistakes in a name that is still recognised.
const MAX_TYPOS: usize = 3;

/// Returns whether Kubernetes or Docker set the variable for a service whose name begins with
/// `ragwire`: `RAGWIRE_SERVICE_HOST`, `RAGWIRE_PORT_8787_TCP_ADDR`, …
fn is_of_a_container(name: &str, value: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") {
        return true;
    }
    // `PORT=tcp://…`, and `PORT_<number>_<protocol>` with its parts.
    if name.ends_with("_PORT") && !name.contains("_PORT_") {
        return ["tcp://", "udp://", "sctp://"]
            .iter()
            .any(|scheme| value.starts_with(scheme));
    }
    let Some((_, port)) = name.split_once("_PORT_") else {
        return false;
    };
    let mut parts = port.split('_');
    parts.next().is_some_and(is_number)
        && parts
            .next()
            .is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol))
}

fn collect_flags(command: &Command, flags: &mut Vec<String>) {
    flags.extend(
        command
            .get_arguments()
            .filter_map(|argument| argument.get_long().map(str::to_owned)),
    );
    for command in command.get_subcommands() {
        collect_flags(command, flags);
    }
}

fn find<'a>(command: &'a Command, flag: &str) -> Option<&'a clap::Arg> {
    command
        .get_arguments()
        .find(|argument| argument.get_long() == Some(flag))
}

/// Splits a list in one variable: paths as in `PATH`, other lists at commas.
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

/// Returns the first line of clap's message, without its `error:` and usage.
fn reason_of(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.lines().next().unwrap_or_default().to_owned()
}
