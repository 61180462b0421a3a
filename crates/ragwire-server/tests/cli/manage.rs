//! `health`, `documents`, `config`, `completions`, `man`, and what `ask` prints as JSON.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::Value;

use super::ask::says;
use super::{Served, program, run};

impl Served {
    fn manage(&self, arguments: &[&str]) -> (i32, String, String) {
        run(program(arguments).args(["--server", &self.address]))
    }
}

#[test]
fn documents_are_added_listed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (bees, broken) = (
        file("bees & co.md", "# Bees\n\nA bee dances."),
        file("x.pdf", "%PDF-1.4 no"),
    );
    let server = Served::start(&folder.path().join("data"), &[]);
    let listed = || server.manage(&["documents", "list"]).1;
    let before = listed();

    let (code, stdout, stderr) = server.manage(&["documents", "add", &broken, "/nowhere.md", &bees]);
    assert_eq!((code, stdout), (1, format!("{bees}: added\n")), "{stderr}");
    assert!(
        stderr.contains(&format!("error: {broken}: ")) && stderr.contains("error: /nowhere.md: No such file"),
        "{stderr}"
    );
    let after = listed();
    let added: Vec<_> = after.lines().filter(|line| !before.contains(line)).collect();
    assert!(
        matches!(added[..], [line] if line.ends_with("  bees & co.md")),
        "{added:?}"
    );
    let json: Value = serde_json::from_str(&server.manage(&["documents", "list", "--json"]).1).unwrap();
    assert_eq!(json["documents"].as_array().unwrap().len(), after.lines().count());

    // Nothing is removed if one of the names is wrong.
    let (code, _, stderr) = server.manage(&["documents", "rm", "bees & co.md", "wasps.md"]);
    assert!(
        code == 1 && stderr.contains("no document has the id or the name `wasps.md`"),
        "{stderr}"
    );
    assert_eq!(listed(), after);
    let removed = server.manage(&["documents", "rm", "bees & co.md"]);
    assert_eq!(removed, (0, "bees & co.md: removed\n".to_owned(), String::new()));
    assert_eq!(listed(), before);
}

#[test]
fn health_is_an_exit_status() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    let (code, stdout, stderr) = server.manage(&["health"]);
    assert!(
        code == 0 && stdout.starts_with("ok: ") && stderr.is_empty(),
        "{stdout} {stderr}"
    );
    let address = server.address.trim_start_matches("http://").to_owned();
    assert_eq!(
        run(&mut program(&["health", "--server", &address])).0,
        0,
        "without a scheme"
    );
    assert_eq!(
        run(program(&["health"]).env("RAGWIRE_SERVER", &address)).0,
        0,
        "from the environment"
    );
    drop(server);
    let (code, _, stderr) = run(&mut program(&["health", "--server", &address]));
    assert!(
        code == 1 && stderr.starts_with(&format!("error: cannot reach http://{address}: ")),
        "{stderr}"
    );
    let (down, _questions) = says(Vec::new());
    assert_eq!(
        run(&mut program(&[
            "health",
            "--server",
            &down.replace("http", "https")
        ]))
        .0,
        1,
        "TLS is spoken"
    );
}

#[test]
fn ask_prints_one_json_object() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    let object = |arguments: &[&str]| {
        let (code, stdout, stderr) = server.ask(&[&["--json"], arguments].concat());
        assert_eq!(stderr, "");
        (code, serde_json::from_str::<Value>(&stdout).unwrap())
    };
    let (code, answered) = object(&["What is BM25?"]);
    assert_eq!(
        (code, &answered["status"], &answered["error"]),
        (0, &"completed".into(), &Value::Null)
    );
    assert!(
        answered["answer"]
            .as_str()
            .unwrap()
            .starts_with("BM25 is a ranking function"),
        "{answered}"
    );
    assert_eq!(
        answered["citations"][0]["document_id"],
        answered["events"]
            .as_array()
            .unwrap()
            .iter()
            .find(|event| event["event"] == "sources")
            .unwrap()["sources"][0]["document_id"]
    );
    let (code, failed) = object(&["fault:text"]);
    assert_eq!(
        (code, &failed["status"], &failed["error"]["code"]),
        (1, &"failed".into(), &"chat_failed".into())
    );
    assert!(
        failed["answer"]
            .as_str()
            .unwrap()
            .starts_with("The first half of an answer that breaks ")
    );
    let (code, cut) = object(&["fault:length"]);
    assert_eq!(
        (code, &cut["status"], &cut["finish_reason"]),
        (0, &"completed".into(), &"length".into())
    );
    let (code, refused) = object(&["--kind", "nonsense", "x"]);
    assert_eq!((code, &refused["status"]), (2, &"error".into()));
}

#[test]
fn each_question_has_its_own_session_unless_one_is_named() {
    let down = || b"HTTP/1.1 503 Down\r\ncontent-length: 0\r\n\r\n".to_vec();
    let (server, questions) = says(vec![down(), down()]);
    for _ in 0..2 {
        run(&mut program(&["ask", "--server", &server, "x"]));
    }
    let sessions: BTreeSet<_> = questions
        .join()
        .unwrap()
        .iter()
        .map(|question| {
            let (_, body) = question.split_once("\r\n\r\n").unwrap();
            serde_json::from_str::<Value>(body).unwrap()["session_id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert!(
        sessions.len() == 2 && sessions.iter().all(|id| id.starts_with("ask-")),
        "{sessions:?}"
    );
}

#[test]
#[cfg(unix)]
fn a_closed_output_is_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    for (stdout, stderr) in [(false, true), (true, false), (false, false)] {
        // The reading ends are dropped, so that each write fails.
        let closed = || Stdio::from(std::io::pipe().unwrap().1);
        let mut ask = program(&["ask", "--server", &server.address, "What is BM25?"]);
        ask.stdout(if stdout { Stdio::null() } else { closed() });
        ask.stderr(if stderr { Stdio::null() } else { closed() });
        let code = ask.status().unwrap().code();
        assert_eq!(
            code,
            Some(if stdout { 0 } else { 2 }),
            "stdout {stdout}, stderr {stderr}"
        );
    }
}

#[test]
fn unknown_variables_are_warned_of_and_those_of_containers_ignored() {
    let warned = |pairs: &[(&str, &str)]| {
        let mut check = program(&["config", "check"]);
        run(check.envs(pairs.iter().copied()))
    };
    let valid = (0, "the settings are valid\n".to_owned());
    for (name, hint) in [
        ("RAGWIRE_MAX_TURN", "did you mean RAGWIRE_MAX_TURNS?"),
        ("RAGWIRE_max_turns", "did you mean RAGWIRE_MAX_TURNS?"),
        ("RAGWIRE_COLOUR_OF_THE_SKY", "`ragwire-server --help` lists them"),
    ] {
        let (code, stdout, stderr) = warned(&[(name, "1")]);
        assert_eq!((code, stdout), valid);
        let warning = format!("warning: unknown environment variable {name} is ignored; ");
        assert!(stderr.starts_with(&warning) && stderr.contains(hint), "{stderr}");
    }
    // What Kubernetes sets for services named `ragwire` and `ragwire-server`, and Docker for a link.
    let injected = [
        ("RAGWIRE_SERVICE_HOST", "10.0.0.1"),
        ("RAGWIRE_SERVICE_PORT", "80"),
        ("RAGWIRE_SERVICE_PORT_HTTP", "80"),
        ("RAGWIRE_PORT", "tcp://10.0.0.1:80"),
        ("RAGWIRE_PORT_80_TCP", "tcp://10.0.0.1:80"),
        ("RAGWIRE_PORT_80_TCP_PROTO", "tcp"),
        ("RAGWIRE_PORT_80_TCP_PORT", "80"),
        ("RAGWIRE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("RAGWIRE_SERVER_SERVICE_HOST", "10.0.0.1"),
        ("RAGWIRE_SERVER_PORT", "tcp://10.0.0.1:80"),
    ];
    let (code, stdout, stderr) = warned(&injected);
    assert_eq!(((code, stdout), stderr.as_str()), (valid, ""));
}

#[test]
fn a_settings_file_with_every_default_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let (code, template, _) = run(&mut program(&["config", "init"]));
    assert_eq!(code, 0);
    let check = |text: &str| {
        let file = folder.path().join("settings.toml");
        std::fs::write(&file, text).unwrap();
        run(&mut program(&[
            "config",
            "check",
            "--config",
            file.to_str().unwrap(),
        ]))
    };
    assert_eq!(check(&template).0, 0, "all is a comment");
    let is_default = |line: &&str| line.starts_with("# ") && line.contains(" = ") && !line.ends_with("\"\"");
    let defaults: Vec<_> = template
        .lines()
        .filter(is_default)
        .map(|line| &line[2..])
        .collect();
    assert!(
        defaults.contains(&"max-turns = 64") && defaults.contains(&"listen = \"127.0.0.1:8787\""),
        "{template}"
    );
    let (code, _, stderr) = check(&defaults.join("\n"));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (_, help, _) = run(&mut program(&["--help"]));
    for flag in template
        .lines()
        .filter_map(|line| line.strip_prefix("# ")?.split_once(" = "))
    {
        let secrets = [
            "llm-key",
            "embedder-key",
            "reranker-key",
            "qdrant-api-key",
            "orchestrator-token",
        ];
        let is_secret = secrets.contains(&flag.0);
        assert!(is_secret || help.contains(&format!("--{}", flag.0)), "{flag:?}");
    }
}

#[test]
fn completions_and_man_pages_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, stdout, _) = run(&mut program(&["completions", shell]));
        assert!(
            code == 0 && stdout.contains("llm-url") && stdout.contains("documents"),
            "{shell}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, _, stderr) = run(&mut program(&["man", folder.path().to_str().unwrap()]));
    assert_eq!(code, 0, "{stderr}");
    for page in [
        "ragwire-server.1",
        "ragwire-server-ask.1",
        "ragwire-server-documents-add.1",
    ] {
        assert!(
            std::fs::read_to_string(folder.path().join(page))
                .unwrap()
                .contains(".TH"),
            "{page}"
        );
    }
    let (code, _, stderr) = run(&mut program(&["man", "/nowhere"]));
    assert!(code == 1 && stderr.contains("No such file"), "{stderr}");
}

#[test]
fn the_short_help_is_short_and_the_long_one_complete() {
    let (_, short, _) = run(&mut program(&["-h"]));
    let (_, long, _) = run(&mut program(&["--help"]));
    assert!(
        short.lines().count() <= 50,
        "{} lines:\n{short}",
        short.lines().count()
    );
    for flag in ["--docs", "--listen", "--llm-url"] {
        assert!(short.contains(flag), "{flag}");
    }
    for heading in ["Common:", "Models:", "Several hosts:", "Limits:"] {
        assert!(long.contains(heading), "{heading}");
    }
    assert!(!short.contains("--journal-turn-size") && long.contains("--journal-turn-size"));
}

#[test]
fn damaged_files_are_found_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let (docs, data) = (folder.path().join("docs"), folder.path().join("data"));
    std::fs::create_dir(&docs).unwrap();
    for number in 0..40 {
        let text = format!("# Bird {number}\n\n{}", "It sings at dawn. ".repeat(60));
        std::fs::write(docs.join(format!("{number}.md")), text).unwrap();
    }
    let (docs, data_path) = (docs.to_str().unwrap(), data.to_str().unwrap());
    let ingested = run(&mut program(&["ingest", docs, "--graph", "--data", data_path]));
    assert_eq!(ingested.0, 0, "{}", ingested.2);
    let command =
        |name: &str, more: &[&str]| run(&mut program(&[&[name, "--data", data_path], more].concat()));
    let export = folder.path().join("birds.jsonl");
    let export = export.to_str().unwrap();

    let (code, stdout, stderr) = command("check", &[]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(stdout.starts_with("library.db: fine, 40 documents, "), "{stdout}");
    assert_eq!(command("export", &[export]).1, "40 documents exported\n");

    // In the middle of the file are passages.
    let file = data.join("library.db");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 9_000].fill(0xa5);
    std::fs::write(&file, bytes).unwrap();
    std::fs::write(data.join("graph.db"), b"not a graph".repeat(1_000)).unwrap();
    let (code, stdout, _) = command("check", &[]);
    assert_eq!(code, 1, "{stdout}");
    assert!(
        stdout.contains("library.db: damaged: ") && stdout.contains("graph.db: damaged: "),
        "{stdout}"
    );
    let (code, stdout, stderr) = command("repair", &[]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert!(
        stdout.contains("documents saved; the old file is library.db.damaged-1"),
        "{stdout}"
    );
    assert!(data.join("library.db.damaged-1").exists() && data.join("graph.db.damaged-1").exists());
    assert_eq!(command("check", &[]).0, 0);

    // What was lost comes back from the export, and nothing twice.
    let (code, stdout, stderr) = command("import", &[export]);
    assert!(
        code == 0 && stdout.contains(" documents imported, "),
        "{stdout}{stderr}"
    );
    assert_eq!(
        command("import", &[export]).1,
        "0 documents imported, 40 were there already\n"
    );
    assert!(
        command("check", &[])
            .1
            .starts_with("library.db: fine, 40 documents, ")
    );
    std::fs::write(export, "{\"other\":1}\n").unwrap();
    let (code, _, stderr) = command("import", &[export]);
    assert!(code == 1 && stderr.contains("line 1: not an export"), "{stderr}");
}

#[test]
fn files_in_use_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let _server = Served::start(&data, &[]);
    for name in ["check", "repair"] {
        let (code, _, stderr) = run(&mut program(&[name, "--data", data.to_str().unwrap()]));
        assert_eq!(
            (code, stderr.as_str()),
            (1, "error: library.db is in use; stop the server first\n"),
            "{name}"
        );
    }
}
