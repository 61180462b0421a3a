//! Tips for arguments that this program does not know: clap suggests names with similar letters,
//! and these are names with a similar meaning in other programs.

use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// Flags of other programs, and what they are here.
const MEANT: [(&[&str], &str); 10] = [
    (
        &["--port", "--host", "--bind", "--address", "--addr", "-p"],
        "--listen 8080 sets the port, and --listen 0.0.0.0:8080 the address too",
    ),
    (
        &["--model", "--llm-file", "-m"],
        "--llm-url http://127.0.0.1:11434/v1 --llm-model NAME names a model on a server, and --llm FILE.gguf a file",
    ),
    (
        &["--ollama", "--openai", "--vllm", "--base-url", "--api-base"],
        "--llm-url http://127.0.0.1:11434/v1 connects Ollama or any server with OpenAI's protocol",
    ),
    (
        &["--api-key", "--key", "--token", "--openai-api-key"],
        "set RAGWIRE_LLM_KEY to the key of the model server, because other users of the machine can see flags",
    ),
    (
        &["--url", "--endpoint", "--remote"],
        "`ask`, `documents`, `sessions` and `health` take --server http://127.0.0.1:8787",
    ),
    (
        &["--stream"],
        "answers are streamed; --no-streaming waits for the whole answer",
    ),
    (
        &["--dir", "--folder", "--path", "--input", "--files", "--library"],
        "--docs PATH names documents, --data FOLDER where the library is stored, and `ask --folder NAME` asks the documents of one folder",
    ),
    (
        &[
            "--verbose",
            "-v",
            "--debug",
            "--log-level",
            "--log",
            "--quiet",
            "-q",
        ],
        "RUST_LOG=debug or RUST_LOG=warn sets what is logged",
    ),
    (
        &["--cors", "--cors-origin", "--origin"],
        "--allow-origin http://localhost:5173 allows a page of another origin",
    ),
    (
        &["--auth", "--login", "--user", "--password"],
        "--api-keys FILE names the keys of users; behind a proxy that authenticates, --owner-header names the header with its user",
    ),
];

/// Commands of other programs, and what they are here.
const MEANT_COMMANDS: [(&[&str], &str); 9] = [
    (
        &["start", "run", "server", "up", "listen"],
        "`ragwire-server serve` starts the server, and so does `ragwire-server` alone",
    ),
    (&["version"], "`ragwire-server --version` prints the version"),
    (
        &["add", "upload", "index", "load", "put"],
        "`ragwire-server documents add PATH` adds to a running server, and `ragwire-server ingest PATH` to the folder of --data",
    ),
    (
        &["list", "ls"],
        "`ragwire-server documents list` lists the documents, and `ragwire-server sessions list` the conversations",
    ),
    (
        &["rm", "remove", "delete"],
        "`ragwire-server documents rm NAME` removes a document, and `ragwire-server sessions rm ID` a conversation",
    ),
    (
        &["chat", "query", "search", "question"],
        "`ragwire-server ask QUESTION` asks a running server",
    ),
    (
        &["status", "ping", "ready"],
        "`ragwire-server health` asks a running server whether it accepts questions",
    ),
    (
        &["init", "settings", "configure"],
        "`ragwire-server config init` prints a settings file",
    ),
    (
        &["backup", "dump", "restore"],
        "`ragwire-server export FILE` writes all documents into a file, and `import FILE` reads it",
    ),
];
/// The command with which the server starts its own processes.
const INTERNAL: &str = "extract";

/// Adds a tip to an error, if there is one.
pub(super) fn with_tip(mut error: Error, command: &Command) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => {
            let usage = error.get(ContextKind::Usage).map(ToString::to_string);
            text(ContextKind::InvalidArg).and_then(|given| unknown(&given, &usage.unwrap_or_default()))
        }
        ErrorKind::InvalidSubcommand => text(ContextKind::InvalidSubcommand)
            .and_then(|given| command_of(&given).or_else(|| documents(&given))),
        ErrorKind::ArgumentConflict => {
            let flag = text(ContextKind::PriorArg).unwrap_or_default();
            let given = text(ContextKind::InvalidSubcommand);
            given.map(|given| misplaced(&given, &flag, command))
        }
        _ => None,
    };
    if let Some(tip) = tip {
        // A name with similar letters is less likely.
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    if let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand)
        && names.iter().any(|name| name == INTERNAL)
    {
        error.remove(ContextKind::SuggestedSubcommand);
    }
    error
}

fn command_of(given: &str) -> Option<String> {
    let (_, tip) = MEANT_COMMANDS.iter().find(|(names, _)| names.contains(&given))?;
    Some((*tip).to_owned())
}

fn unknown(given: &str, usage: &str) -> Option<String> {
    let name = given.split(['=', ' ']).next().unwrap_or(given);
    if usage.contains("config init") {
        let file = if name.starts_with('-') {
            "ragwire.toml"
        } else {
            name
        };
        return Some(format!(
            "the file is printed: `ragwire-server config init > {file}`"
        ));
    }
    if let Some((_, tip)) = MEANT.iter().find(|(names, _)| names.contains(&name)) {
        return Some((*tip).to_owned());
    }
    if let Some(rest) = name.strip_prefix('-') {
        let is_number = rest.starts_with(|letter: char| letter.is_ascii_digit());
        return is_number.then(|| format!("`{name}` is a negative value, and no setting takes one"));
    }
    if name.contains("://") || has_port(name) {
        return Some(format!("write --server {name}"));
    }
    documents(given)
}

/// Returns whether the text ends with a port, as `127.0.0.1:8787`.
fn has_port(text: &str) -> bool {
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    port.is_some_and(|port| port.is_ok())
}

/// A path in place of a command.
fn documents(given: &str) -> Option<String> {
    let exists = Path::new(given).exists();
    exists.then(|| format!("to answer from these documents: `ragwire-server --docs {given}`"))
}

/// A word after flags: a command, whose flags follow it, or the second half of a value.
fn misplaced(given: &str, flag: &str, command: &Command) -> String {
    if command.find_subcommand(given).is_some() {
        return format!("flags follow the command: `ragwire-server {given} --help` lists them");
    }
    let name = flag.split(' ').next().unwrap_or(flag);
    format!("the value of {name} ends at the space before `{given}`; write it without one, or in quotes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_of_another_command_is_explained_with_that_command() {
        let command = super::super::command();
        let of_server = command.get_arguments().map(|argument| (None, argument));
        let of_commands = command.get_subcommands().flat_map(|command| {
            let arguments = command.get_arguments();
            arguments.map(|argument| (Some(command.get_name()), argument))
        });
        let known: Vec<(Option<&str>, String)> = of_server
            .chain(of_commands)
            .filter_map(|(command, argument)| Some((command, format!("--{}", argument.get_long()?))))
            .collect();
        for (names, tip) in MEANT {
            for (command, flag) in known.iter().filter(|(_, flag)| names.contains(&flag.as_str())) {
                let whole = command.map(|command| format!("`{command} {flag} "));
                assert!(whole.is_some_and(|whole| tip.contains(&whole)), "{flag}: {tip}");
            }
        }
    }
}
