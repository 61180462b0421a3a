//! The command line: `serve` (the default command), `ingest`, `ask`, `eval`, `documents`, `sessions`,
//! `health`, `check`, `repair`, `export`, `import`, `keys`, `config`, `completions`, `man`.
//!
//! | status | meaning |
//! |---|---|
//! | 0 | done; `ask`: the turn completed; `eval`: every threshold is met |
//! | 1 | failed; `ask`: the turn failed; `eval`: a threshold is missed; `health`: no questions are accepted |
//! | 2 | wrong usage or settings; `ask`: the server refused the question or was not reached |
//! | 3 | `ask`: the turn was stopped |
//! | 4 | `ask`: the answer is incomplete or cannot be read |

mod generate;
mod help;
mod hints;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::ask::{self, AskOptions};
use crate::eval::{self, EvalOptions};
use crate::extract::{self, ChildOptions};
use crate::keys::{self, NewKey};
use crate::maintain::{self, DataFolder};
use crate::manage::{self, Documents, Remote, Sessions};
use crate::output::{print_line, report_line};
use crate::settings::Settings;
use crate::settings::layers::{self, SettingsError};
use crate::settings::values::LogFormat;
use crate::start;

/// The status of wrong usage, the same as for clap's own errors.
const USAGE: u8 = 2;

/// Answers questions about your documents, live, with citations
#[derive(Debug, Parser)]
#[command(
    name = "ragwire-server",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "-h lists the common settings, --help all of them. Every flag is also an environment variable \
                  (RAGWIRE_MAX_TURNS=8) and a key of the settings file (max-turns = 8). A flag wins over the \
                  environment, which wins over the file."
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Subcommands>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Serve questions and uploads over HTTP (default)
    Serve(ServeArgs),
    /// Index documents into --data and exit
    Ingest(IngestArgs),
    /// Ask a running server; steps go to stderr, the answer to stdout
    #[command(
        after_help = "Examples:\n  ragwire-server ask \"When does the warranty end?\"\n  ragwire-server ask --folder contracts \
                      --json \"Who signed?\" | jq .answer\n  ragwire-server ask --session notes \"And who paid?\"\n\n\
                      Exit status: 0 the turn completed, 1 it failed, 2 the server refused the question or was not \
                      reached, 3 the turn was stopped, 4 the answer is incomplete or cannot be read."
    )]
    Ask(AskOptions),
    /// Ask a server your own questions and measure its answers
    #[command(
        after_help = "The questions are a JSON file: {\"questions\": [{\"question\": \"how do I log in?\", \"file\": \"guide.md\", \
                      \"phrase\": \"enter your password\"}, {\"question\": \"who won?\", \"unanswerable\": true}]}. A passage of \
                      the file that holds the phrase answers. Further fields: fact (what the text of the answer must hold), kind, \
                      after (a question before it in the conversation). Exit status: 0 done, 1 a threshold is missed, 2 the \
                      questions cannot be asked."
    )]
    Eval(EvalOptions),
    /// List, add and remove the documents of a running server
    Documents {
        #[command(subcommand)]
        command: Documents,
        #[command(flatten)]
        remote: Remote,
    },
    /// List, rename and delete the conversations of a running server: its sessions
    Sessions {
        #[command(subcommand)]
        command: Sessions,
        #[command(flatten)]
        remote: Remote,
    },
    /// Ask a running server whether it accepts questions, for health checks
    #[command(after_help = "Exit status: 0 it accepts questions, 1 it does not or was not reached.")]
    Health(Remote),
    /// Check the files of documents, graph and conversations while no server runs
    #[command(after_help = "Exit status: 0 every file is fine, 1 a file is damaged or in use.")]
    Check(DataFolder),
    /// Save what can be read of damaged files, and move the rest away
    #[command(
        after_help = "Exit status: 0 nothing is damaged any more, 1 the folder is in use or cannot be repaired."
    )]
    Repair(DataFolder),
    /// Write all documents into a file, for a backup or another machine
    Export {
        /// The file to write: JSON lines
        file: PathBuf,
        #[command(flatten)]
        folder: DataFolder,
    },
    /// Add the documents of an export
    Import {
        /// The file that `export` wrote
        file: PathBuf,
        #[command(flatten)]
        folder: DataFolder,
    },
    /// Make API keys for --api-keys
    Keys {
        #[command(subcommand)]
        command: KeysCommand,
    },
    /// Write or check a settings file
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Print completions for a shell
    #[command(
        after_help = "Example:\n  ragwire-server completions bash > ~/.local/share/bash-completion/completions/ragwire-server"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man pages into a folder
    Man {
        /// The folder, which must exist
        #[arg(value_name = "DIR", default_value = ".")]
        folder: PathBuf,
    },
    /// Read one document from stdin; the server starts itself this way
    #[command(hide = true)]
    Extract(ChildOptions),
}

#[derive(Debug, Default, Args)]
struct ServeArgs {
    /// Settings file (TOML)
    #[arg(long, value_name = "FILE", help_heading = help::COMMON_HEADING)]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: help::Grouped,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make a key: its line for the file goes to stdout, the key to stderr
    #[command(after_help = "Example:\n  ragwire-server keys new --owner alice >> keys.txt")]
    New(NewKey),
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print a settings file with every setting, its meaning and its default
    Init,
    /// Check the settings of flags, environment and file without starting
    Check(Box<ServeArgs>),
}

#[derive(Debug, Args)]
struct IngestArgs {
    /// Files and folders, like --docs
    paths: Vec<PathBuf>,
    #[command(flatten)]
    serve: ServeArgs,
}

/// Runs the program.
pub fn main() -> ExitCode {
    let command = command();
    let cli = command
        .clone()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .unwrap_or_else(|error| hints::with_tip(error, &command).exit());
    let done = match cli.command {
        Some(Subcommands::Extract(options)) => return extract::child(&options),
        Some(Subcommands::Ask(options)) => ask_with_environment(options, &command),
        Some(Subcommands::Eval(options)) => {
            from_environment(&command).map(|environment| with_runtime(eval::run(options, environment)))
        }
        Some(Subcommands::Documents {
            command: wanted,
            remote,
        }) => from_environment(&command)
            .map(|environment| with_runtime(manage::documents(wanted, remote, environment))),
        Some(Subcommands::Sessions {
            command: wanted,
            remote,
        }) => from_environment(&command)
            .map(|environment| with_runtime(manage::sessions(wanted, remote, environment))),
        Some(Subcommands::Health(remote)) => {
            from_environment(&command).map(|environment| with_runtime(manage::health(remote, environment)))
        }
        Some(Subcommands::Keys {
            command: KeysCommand::New(key),
        }) => Ok(keys::new_key(key)),
        Some(Subcommands::Config {
            command: ConfigCommand::Init,
        }) => Ok(generate::settings_file(&command)),
        Some(Subcommands::Config {
            command: ConfigCommand::Check(args),
        }) => settle(*args, &command).map(|_| {
            print_line!("the settings are valid");
            ExitCode::SUCCESS
        }),
        Some(Subcommands::Check(folder)) => Ok(with_runtime(async {
            maintain::exit(maintain::check(&folder).await)
        })),
        Some(Subcommands::Repair(folder)) => Ok(with_runtime(async {
            maintain::exit(maintain::repair(&folder).await)
        })),
        Some(Subcommands::Export { file, folder }) => Ok(maintain::exit(maintain::export(&folder, &file))),
        Some(Subcommands::Import { file, folder }) => Ok(maintain::exit(maintain::import(&folder, &file))),
        Some(Subcommands::Completions { shell }) => Ok(generate::completions(shell, command)),
        Some(Subcommands::Man { folder }) => Ok(generate::man_pages(command, &folder)),
        Some(Subcommands::Ingest(args)) => ingest(args, &command),
        Some(Subcommands::Serve(args)) => serve(args, &command),
        None => serve(cli.serve, &command),
    };
    done.unwrap_or_else(|error| {
        report_line!("error: {error}");
        ExitCode::from(USAGE)
    })
}

/// Builds the command line.
fn command() -> clap::Command {
    Cli::command().mut_subcommand("ingest", help::of_ingest)
}

/// Parses the arguments of a command from the environment, and warns of variables that belong to
/// none.
fn from_environment<A: Args + FromArgMatches>(command: &clap::Command) -> Result<A, SettingsError> {
    let variables = layers::variables();
    for warning in layers::unknown_variables(&variables, command) {
        let _ = writeln!(std::io::stderr(), "warning: {warning}");
    }
    layers::from_environment(&variables)
}

fn settle(args: ServeArgs, command: &clap::Command) -> Result<Settings, SettingsError> {
    layers::no_secrets(&args.options.0)?;
    let environment: ServeArgs = from_environment(command)?;
    let config = args.config.or(environment.config);
    layers::settle(args.options.0, config.as_deref(), environment.options.0)
}

fn serve(args: ServeArgs, command: &clap::Command) -> Result<ExitCode, SettingsError> {
    let settings = settle(args, command)?;
    log(settings.log_format);
    Ok(with_runtime(start::serve(settings)))
}

fn ingest(args: IngestArgs, command: &clap::Command) -> Result<ExitCode, SettingsError> {
    let mut settings = settle(args.serve, command)?;
    settings.docs.extend(args.paths);
    log(settings.log_format);
    Ok(with_runtime(start::ingest(settings)))
}

fn ask_with_environment(options: AskOptions, command: &clap::Command) -> Result<ExitCode, SettingsError> {
    let environment = from_environment(command)?;
    Ok(with_runtime(ask::run(options.over(environment))))
}

fn with_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            // A parser or an index that still runs must not delay the exit.
            runtime.shutdown_background();
            code
        }
        Err(error) => {
            report_line!("error: cannot start the async runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The default log filter. llama.cpp logs a hundred lines per model and warns about intended
/// behaviour.
const LOG: &str = "info,llama-cpp-2=error,llama_cpp_2=error";

/// Logs to stderr, filtered by `RUST_LOG` (`level` or `target=level`, separated by commas) or
/// [`LOG`].
fn log(format: LogFormat) {
    let filter = std::env::var("RUST_LOG")
        .ok()
        .and_then(|directives| directives.parse().ok());
    let filter: Targets = filter.unwrap_or_else(|| LOG.parse().unwrap_or_default());
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => registry
            .with(layer.with_ansi(std::io::stderr().is_terminal()))
            .init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true)).init(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command().debug_assert();
        assert!(super::LOG.parse::<super::Targets>().is_ok());
    }
}
