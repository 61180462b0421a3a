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
        "--docs PATH names documents, and --data FOLDER where the library is stored",
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
        "the server has no login: a proxy authenticates, and --owner-header names the header with its user",
    ),
];

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
        ErrorKind::InvalidSubcommand => {
            text(ContextKind::InvalidSubcommand).and_then(|given| documents(&given))
        }
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
        let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

fn unknown(given: &str, usage: &str) -> Option<String> {
    let name = given.split(['=', ' ']).next().unwrap_or(given);
    if let Some((_, tip)) = MEANT.iter().find(|(names, _)| names.contains(&name)) {
        return Some((*tip).to_owned());
    }
    if let Some(rest) = name.strip_prefix('-') {
        let is_number = rest.starts_with(|letter: char| letter.is_ascii_digit());
        return is_number.then(|| format!("`{name}` is a negative value, and no setting takes one"));
    }
    if usage.contains("config init") {
        return Some(format!(
            "the file is printed: `ragwire-server config init > {name}`"
        ));
    }
    if name.contains("://") {
        return Some(format!("write --server {name}"));
    }
    documents(given)
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
    fn no_flag_of_this_program_is_explained_away() {
        let command = super::super::command();
        let mut known: Vec<String> = Vec::new();
        for command in std::iter::once(&command).chain(command.get_subcommands()) {
            known.extend(
                command
                    .get_arguments()
                    .filter_map(|argument| argument.get_long().map(str::to_owned)),
            );
        }
        for name in MEANT.iter().flat_map(|(names, _)| *names) {
            assert!(
                !known.contains(&name.trim_start_matches('-').to_owned()),
                "{name}"
            );
        }
    }
}
