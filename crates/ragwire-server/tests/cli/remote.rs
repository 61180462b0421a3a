//! What the commands for a running server share: its address, headers, JSON; and its sessions.

use serde_json::Value;

use super::{Served, program, run};

/// A server behind a proxy that names the user of each request.
fn owned(folder: &std::path::Path) -> Served {
    Served::start(&folder.join("data"), &["--owner-header", "x-user"])
}

#[test]
fn a_header_names_the_user_of_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let server = owned(folder.path());
    let note = folder.path().join("kites.md");
    std::fs::write(&note, "# Kites\n\nThe red kite steers with its tail.").unwrap();
    let questions = folder.path().join("questions.json");
    std::fs::write(
        &questions,
        r#"[{"question": "What does the red kite steer with?", "phrase": "its tail"}]"#,
    )
    .unwrap();
    let (note, questions) = (note.to_str().unwrap(), questions.to_str().unwrap());
    let commands: [&[&str]; 8] = [
        &["documents", "add", note],
        &["documents", "list"],
        &["ask", "--session", "kites", "What does the red kite steer with?"],
        &[
            "ask",
            "--service",
            "document-rag",
            "What does the red kite steer with?",
        ],
        &[
            "ask",
            "--service",
            "document-rag",
            "--streaming",
            "What does the red kite steer with?",
        ],
        &["eval", questions],
        &["sessions", "list"],
        &["documents", "rm", "kites.md"],
    ];
    for command in commands {
        let with = |arguments: &[&str], variables: &[(&str, &str)]| {
            let mut command = program(command);
            let command = command.args(["--server", &server.address]).args(arguments);
            run(command.envs(variables.iter().copied()))
        };
        let (code, _, stderr) = with(&[], &[]);
        assert!(
            code != 0 && stderr.contains("x-user"),
            "{command:?}: {code} {stderr}"
        );
        let (code, stdout, stderr) = match command[0] {
            "sessions" => with(&[], &[("RAGWIRE_HEADER", "x-user: ada")]),
            _ => with(&["--header", "X-User: ada"], &[]),
        };
        assert_eq!(code, 0, "{command:?}: {stdout} {stderr}");
        if command[0] == "ask" {
            assert_eq!(stdout, "The red kite steers with its tail. [1]\n");
        }
        if command[0] == "sessions" {
            assert!(stdout.contains("\nkites  20"), "after that of `eval`: {stdout}");
        }
    }
    // A flag wins over the variable.
    let mut listing = program(&[
        "sessions",
        "list",
        "--server",
        &server.address,
        "--header",
        "x-user: eve",
    ]);
    assert_eq!(
        run(listing.env("RAGWIRE_HEADER", "x-user: ada")),
        (0, String::new(), String::new())
    );
    let (code, _, stderr) = run(&mut program(&[
        "documents",
        "rm",
        "commit-rule.md",
        "--server",
        &server.address,
        "--header",
        "x-user: ada",
    ]));
    assert_eq!(code, 1);
    assert!(
        stderr.contains("no document has the id or the name `commit-rule.md`"),
        "{stderr}"
    );
    let (code, _, stderr) = run(&mut program(&[
        "documents",
        "rm",
        "sample/commit-rule.md",
        "--server",
        &server.address,
        "--header",
        "x-user: ada",
    ]));
    assert_eq!(
        (code, stderr.as_str()),
        (
            1,
            "error: Refused: the document is shared or belongs to another user, so it cannot be removed. \
             (403 Forbidden, not_owner)\n"
        )
    );
}

#[test]
fn sessions_are_listed_renamed_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &[]);
    let sessions = |arguments: &[&str]| {
        let mut command = program(&["sessions"]);
        run(command.args(arguments).args(["--server", &server.address]))
    };
    let done = |text: &str| (0, text.to_owned(), String::new());
    assert_eq!(sessions(&["list"]), done(""));
    for (session, question) in [
        ("one", "What is BM25?"),
        ("two", "What is the trailer?"),
        ("one", "Why?"),
    ] {
        assert_eq!(server.ask(&["--session", session, question]).0, 0);
    }
    let (code, listed, _) = sessions(&["ls"]);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split("  ").collect()).collect();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row[0], row[row.len() - 2].trim(), row[row.len() - 1]))
        .collect();
    assert_eq!(
        (code, shown.as_slice()),
        (
            0,
            [
                ("one", "4", "What is BM25?"),
                ("two", "2", "What is the trailer?")
            ]
            .as_slice()
        )
    );
    let is_time = |text: &str| text.len() == 17 && text.starts_with("20") && text.ends_with('Z');
    assert!(rows.iter().all(|row| is_time(row[1])), "{listed}");
    let json: Value = serde_json::from_str(&sessions(&["list", "--json"]).1).unwrap();
    assert_eq!(
        (&json["sessions"][0]["id"], &json["sessions"][1]["messages"]),
        (&"one".into(), &2.into())
    );

    assert_eq!(sessions(&["rename", "two", "The end"]), done("two: renamed\n"));
    let renamed: Value = serde_json::from_str(&sessions(&["rename", "two", "Trailers", "--json"]).1).unwrap();
    assert_eq!(renamed["title"], "Trailers");
    let (code, _, stderr) = sessions(&["rename", "two", " "]);
    assert!(
        code == 1 && stderr.contains("A title has 1 to 200 characters"),
        "{stderr}"
    );
    for unknown in [["rename", "three", "x"].as_slice(), &["rm", "three"]] {
        let error = "error: no session has the id `three`; `ragwire-server sessions list` lists them\n";
        assert_eq!(sessions(unknown), (1, String::new(), error.to_owned()));
    }
    assert_eq!(sessions(&["rm", "one"]), done("one: removed\n"));
    assert_eq!(
        sessions(&["rm", "two", "--json"]),
        done("{\"removed\":\"two\"}\n")
    );
    assert_eq!(sessions(&["list"]), done(""));
}

#[test]
fn a_server_that_does_not_know_its_users_lists_no_sessions_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(folder.path(), &["--allow-host", "docs.example"]);
    let (code, _, stderr) = run(&mut program(&["sessions", "list", "--server", &server.address]));
    assert!(code == 1 && stderr.contains("--owner-header"), "{stderr}");
}

#[test]
fn a_folder_is_added_with_the_names_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let server = Served::start(&folder.path().join("data"), &[]);
    let notes = folder.path().join("notes");
    std::fs::create_dir_all(notes.join("deep")).unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    std::fs::write(notes.join("a.md"), "A kestrel hovers.").unwrap();
    std::fs::write(notes.join("deep/a.md"), "An osprey dives.").unwrap();
    std::fs::write(notes.join("photo.png"), "no").unwrap();
    let documents = |arguments: &[&str]| {
        let mut command = program(&["documents"]);
        run(command
            .args(arguments)
            .args(["--server", &server.address])
            .current_dir(folder.path()))
    };
    let (code, stdout, stderr) = documents(&["add", "notes", "empty"]);
    assert_eq!(
        (code, stderr.as_str()),
        (
            1,
            "error: empty: the folder has no documents of a type that is read\n"
        )
    );
    assert_eq!(stdout.lines().count(), 2, "{stdout}");
    let removed = documents(&["rm", "--json", "notes/a.md", "notes/deep/a.md"]);
    let names: Vec<Value> = removed
        .1
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].clone())
        .collect();
    assert_eq!(
        (removed.0, names),
        (0, vec!["notes/a.md".into(), "notes/deep/a.md".into()])
    );
}
