//! Files made from the description of the command line: settings, completions, man pages.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::settings::Settings;
use crate::settings::layers::SECRETS;

/// Prints a settings file in which every setting is a comment with its default.
pub(super) fn settings_file(command: &Command) -> ExitCode {
    let mut text = String::from(
        "# Settings of ragwire-server; `ragwire-server --config FILE` reads them, `ragwire-server config check --config \
         FILE`\n# checks them. Each line that begins with `#` shows a default; remove the `#` to change it.\n",
    );
    let defaults = Settings::defaults_for_help();
    let mut arguments: Vec<_> = command.get_arguments().collect();
    arguments.sort_by_key(|argument| super::help::rank(argument.get_help_heading()));
    let mut heading = None;
    for argument in arguments {
        let Some(flag) = argument.get_long() else { continue };
        let is_setting = !["config", "help", "version"].contains(&flag);
        if !is_setting || (argument.is_hide_set() && !SECRETS.contains(&flag)) {
            continue;
        }
        if heading != argument.get_help_heading() {
            heading = argument.get_help_heading();
            text.push_str(&format!("\n## {}\n", heading.unwrap_or_default()));
        }
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let id = argument.get_id().as_str();
        let default = defaults.iter().find(|(name, ..)| *name == id);
        let value = match default.map(|(_, _, default)| default.as_str()) {
            // A list.
            None => "[]".to_owned(),
            Some("none") => "\"\"".to_owned(),
            Some(plain @ ("true" | "false")) => plain.to_owned(),
            Some(number) if number.parse::<u64>().is_ok() => number.to_owned(),
            Some(text) => format!("{text:?}"),
        };
        text.push_str(&format!("\n# {}\n# {flag} = {value}\n", help.replace('\n', " ")));
    }
    written(io::stdout().write_all(text.as_bytes()))
}

/// Prints the completions for a shell.
pub(super) fn completions(shell: Shell, mut command: Command) -> ExitCode {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut command, "ragwire-server", &mut bytes);
    written(io::stdout().write_all(&bytes))
}

/// Writes a man page for the program and one for each command.
pub(super) fn man_pages(command: Command, folder: &Path) -> ExitCode {
    match clap_mangen::generate_to(command, folder) {
        Ok(()) => {
            let page = folder.join("ragwire-server.1");
            let _ = writeln!(
                io::stderr(),
                "wrote the man pages; `man {}` shows the first",
                page.display()
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            let folder = folder.display();
            let _ = writeln!(
                io::stderr(),
                "error: cannot write the man pages into {folder}: {error}; name a folder that exists"
            );
            ExitCode::FAILURE
        }
    }
}

fn written(done: io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: the output cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}
