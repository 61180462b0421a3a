//! `ask` on a terminal, which Debian's `script` provides.

#![cfg(target_os = "linux")]

use std::process::Command;

use super::{Served, program, run};

/// What a terminal shows of a question, with the line ends of a terminal.
fn shown(server: &Served, variables: &[(&str, &str)]) -> String {
    let program = program(&[]);
    let ask = format!(
        "{} ask --server {} 'What is BM25?'",
        program.get_program().display(),
        server.address
    );
    let mut terminal = Command::new("script");
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => terminal.env(name, value),
            None => terminal.env_remove(name),
        };
    }
    terminal.env_remove("NO_COLOR").env("TERM", "xterm-256color");
    terminal.envs(variables.iter().copied());
    let (code, stdout, stderr) = run(terminal.args(["-qec", &ask, "/dev/null"]));
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    stdout
}

#[test]
fn steps_are_grey_unless_no_color_is_set_and_late_ones_begin_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    let (grey, reset) = ("\x1b[2m", "\x1b[0m");
    let coloured = shown(&server, &[]);
    for step in [
        "· searching with bm25_search: What is BM25?",
        "· choosing sentences",
    ] {
        assert!(
            coloured.contains(&format!("{grey}{step}")),
            "{step}: {coloured:?}"
        );
    }
    // The verification follows the text, which has no line end.
    let late = format!("[1]\r\n{grey}· 1 of 1 claim supported{reset}\r\n");
    assert!(coloured.contains(&late), "{coloured:?}");
    let plain = shown(&server, &[("NO_COLOR", "1")]);
    assert!(
        plain.contains("· searching with bm25_search: What is BM25?"),
        "{plain:?}"
    );
    assert!(!plain.contains(grey), "{plain:?}");
}
