//! The program as a command.

use std::process::Command;

use ragwire_server::settings::layers;

const PROGRAM: &str = env!("CARGO_BIN_EXE_ragwire-server");

/// The program with these arguments, without the settings in the environment of the tests.
pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env("RUST_LOG", "warn");
    for (name, _) in layers::variables() {
        command.env_remove(name);
    }
    command
}
