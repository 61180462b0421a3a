//! The program as a user runs it: settings, `ingest`, `ask`, signals.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod ask;
mod disconnects;
mod eval;
mod keys;
mod manage;
mod mistakes;
mod remote;
#[cfg(feature = "qdrant")]
#[path = "../served/request.rs"]
mod request;
mod requests;
#[path = "../served/mod.rs"]
mod served;
mod services;
#[cfg(feature = "qdrant")]
mod shared;
mod start;
mod terminal;
mod tls;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ragwire_server::settings::Options;
use ragwire_server::settings::layers::{self, SettingsError, Variables};
use ragwire_server::settings::values::{Count, Span};

use served::{Served, program};

fn run(command: &mut Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

impl Served {
    fn ask(&self, arguments: &[&str]) -> (i32, String, String) {
        run(program(&["ask", "--server", &self.address]).args(arguments))
    }
}

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn from(pairs: &[(&str, &str)]) -> Result<Options, SettingsError> {
    layers::from_environment(&variables(pairs))
}

#[test]
fn a_flag_wins_over_the_environment_which_wins_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings.toml");
    std::fs::write(
        &file,
        "max-turns = 3\nmax-uploads = 3\nmax-connections = 3\ndrain = \"3s\"\ndocs = [\"file\"]\nmax-upload-size = 4096\n",
    )
    .unwrap();
    let environment = from(&[
        ("RAGWIRE_MAX_TURNS", "2"),
        ("RAGWIRE_MAX_UPLOADS", "2"),
        ("RAGWIRE_ALLOW_HOST", "a.example, b.example"),
        ("RAGWIRE_TEST_FAULTS", "1"),
        ("RAGWIRE_SESSION", "belongs to another command"),
    ])
    .unwrap();
    let flags = Options {
        max_turns: Some(Count(1)),
        ..Options::default()
    };
    let settings = layers::settle(flags, Some(&file), environment).unwrap();
    assert_eq!(
        (settings.max_turns, settings.max_uploads, settings.max_connections),
        (Count(1), Count(2), Count(3))
    );
    assert_eq!(settings.drain, Span(Duration::from_secs(3)));
    assert_eq!(settings.docs, [Path::new("file")]);
    assert_eq!(settings.max_upload_size.0, 4096);
    assert_eq!(settings.allow_host, ["a.example", "b.example"]);
    assert!(settings.test_faults);
    assert_eq!(settings.listen.port(), 8787, "the default");

    let paths = std::env::join_paths(["a", "b c"]).unwrap();
    let docs = from(&[("RAGWIRE_DOCS", paths.to_str().unwrap())]).unwrap().docs;
    assert_eq!(docs.unwrap(), [Path::new("a"), Path::new("b c")]);
}

#[test]
fn wrong_settings_are_refused_at_startup_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = |text: &str| {
        let path = folder
            .path()
            .join(format!("{}.toml", text.replace(['\n', '"', ' '], "_")));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unknown_key = file("max-turn = 3\n");
    let zero = file("max-turns = 0\n");
    let twice = file("max-turns = 1\nmax-turns = 2\n");
    let negative = file("drain = \"-1s\"\n");
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    let cases: &[Case<'_>] = &[
        (
            &["--config", &unknown_key],
            &[],
            "unknown field `max-turn`; did you mean `max-turns`? `ragwire-server config init` lists all keys",
        ),
        (&["--config", &zero], &[], "`0` is not a whole number"),
        (&["--config", &twice], &[], "duplicate key"),
        (&["--config", &negative], &[], "out of range"),
        (&["--config", "/nowhere.toml"], &[], "No such file"),
        (
            &[],
            &[("RAGWIRE_CONFIG", &unknown_key)],
            "unknown field `max-turn`",
        ),
        (
            &[],
            &[("RAGWIRE_MAX_TURNS", "0")],
            "RAGWIRE_MAX_TURNS: invalid value '0'",
        ),
        (
            &[],
            &[("RAGWIRE_LISTEN", "here")],
            "RAGWIRE_LISTEN: invalid value",
        ),
        (&["--max-turns", "0"], &[], "`0` is not a whole number"),
        (
            &["--max-turns", "9223372036854775808"],
            &[],
            "is not a whole number",
        ),
        (&["--drain", "0s"], &[], "out of range"),
        (
            &["--keep-alive", "3m"],
            &[],
            "keep-alive (3m) must be less than idle-timeout (2m)",
        ),
        (&["--max-question", "1MiB"], &[], "max-question"),
        (&["--nonsense"], &[], "unexpected argument"),
        (
            &["ask", "--server", "ftp://a", "x"],
            &[],
            "`ftp://a` is not the address of a server; write http://127.0.0.1:8787",
        ),
        (
            &["ask", "x"],
            &[("RAGWIRE_SERVER", "ftp://a")],
            "RAGWIRE_SERVER: invalid value 'ftp://a'",
        ),
        (&["--listen", "here"], &[], "`here` is not an address with a port"),
        (&["--prot", "1"], &[], "unexpected argument '--prot' found"),
        (
            &["--max-turn", "1"],
            &[],
            "a similar argument exists: '--max-turns'",
        ),
        (&["asks"], &[], "a similar subcommand exists: 'ask'"),
        (
            &["config", "check", "--max-turns", "0"],
            &[],
            "`0` is not a whole number",
        ),
    ];
    for (arguments, environment, said) in cases {
        let mut command = program(arguments);
        let (code, _, stderr) = run(command
            .envs(environment.iter().copied())
            .env_remove("X")
            .current_dir(folder.path()));
        assert_eq!(code, 2, "{arguments:?} {environment:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?} {environment:?}: {stderr}");
    }
    assert!(!data.exists(), "nothing was begun");
}

#[test]
fn settings_of_models_and_stores_are_refused_with_a_reason_and_without_keys() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unquoted = file("unquoted.toml", "drain = \"1s\"\nllm-key = s3cret\n");
    let lonely = file("lonely.toml", "llm-key = \"s3cret\"\n");
    let spaced = file(
        "spaced.toml",
        "llm-url = \"http://127.0.0.1:1/v1\"\nllm-model = \"m\"\nllm-key = \"s3cret key\"\n",
    );
    let traversal = file("traversal.toml", "llm = \"hf:owner/repo/../m.gguf\"\n");
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    let cases: &[Case<'_>] = &[
        (&["--llm-key", "s3cret"], &[], "set RAGWIRE_LLM_KEY"),
        (
            &["serve", "--qdrant-api-key", "s3cret"],
            &[],
            "set RAGWIRE_QDRANT_API_KEY",
        ),
        (&["ingest", "x", "--llm-key=s3cret"], &[], "set RAGWIRE_LLM_KEY"),
        (&[], &[("RAGWIRE_LLM_KEY", "s3cret")], "llm-key requires llm-url"),
        (&["--config", &unquoted], &[], "line 2"),
        (&["--config", &lonely], &[], "llm-key requires llm-url"),
        (&["--config", &spaced], &[], "llm-key: the api key is not valid"),
        (
            &["--config", &traversal],
            &[],
            "`hf:owner/repo/../m.gguf` is not a GGUF file; write hf:owner/repo/file.gguf",
        ),
        (
            &["--llm-url", "http://u:s3cret@127.0.0.1/v1", "--llm-model", "m"],
            &[],
            "llm-url: the url of the server is not valid: it contains a user or a password; a key belongs in its own setting",
        ),
        (
            &["--store", "sqlite"],
            &[],
            "unknown value `sqlite`: write one of memory, qdrant-edge, qdrant",
        ),
        (
            &["--qdrant-url", "http://:s3cret@127.0.0.1"],
            &[],
            "qdrant-url requires store qdrant, which is not set",
        ),
        (
            &["--graph-model"],
            &[],
            "graph-model requires llm or llm-url, none of which is set",
        ),
        (&["--llm", "hf:owner/repo"], &[], "write hf:owner/repo/file.gguf"),
        (&["--llm-gpu-layers", "many"], &[], "is not a number of layers"),
    ];
    for (arguments, environment, said) in cases {
        let mut command = program(arguments);
        let command = command.envs(environment.iter().copied());
        let (code, _, stderr) = run(command.current_dir(folder.path()));
        assert_eq!(code, 2, "{arguments:?} {environment:?}: {stderr}");
        assert!(stderr.contains(said), "{arguments:?} {environment:?}: {stderr}");
        assert!(
            !stderr.contains("s3cret"),
            "{arguments:?} {environment:?}: {stderr}"
        );
    }
    let (code, help, _) = run(&mut program(&["--help"]));
    assert_eq!(code, 0);
    assert!(help.contains("--llm-url") && !help.contains("--llm-key") && !help.contains("--qdrant-api-key"));
}

#[cfg(not(any(
    feature = "llama",
    feature = "otel",
    feature = "qdrant",
    feature = "qdrant-edge"
)))]
#[test]
fn settings_that_need_a_missing_feature_name_it() {
    let qdrant = &["--store", "qdrant", "--qdrant-url", "http://127.0.0.1:6334"];
    let cases: [(&[&str], &str, &str); 6] = [
        (&["--llm", "m.gguf"], "llm", "llama"),
        (&["--embedder", "hf:owner/repo/m.gguf"], "embedder", "llama"),
        (&["ingest", "x", "--reranker", "m.gguf"], "reranker", "llama"),
        (
            &["serve", "--store", "qdrant-edge"],
            "store qdrant-edge",
            "qdrant-edge",
        ),
        (qdrant, "store qdrant", "qdrant"),
        (&["--otlp-url", "http://127.0.0.1:4318"], "otlp-url", "otel"),
    ];
    for (arguments, setting, feature) in cases {
        let (code, _, said) = run(&mut program(arguments));
        let words = format!("error: {setting} is not in this build; build with `--features {feature}`");
        assert!(code == 2 && said.starts_with(&words), "{arguments:?}: {said}");
        let is_model = feature == "llama";
        assert_eq!(said.contains(&format!("--{setting}-url")), is_model, "{said}");
    }
}

#[test]
fn ingest_fills_the_library_that_serve_answers_from() {
    let folder = tempfile::tempdir().unwrap();
    let (docs, data) = (folder.path().join("docs"), folder.path().join("data"));
    std::fs::create_dir_all(&docs).unwrap();
    std::fs::write(
        docs.join("bees.md"),
        "# Bees\n\nA bee dances to tell where the nectar is.",
    )
    .unwrap();
    std::fs::write(docs.join("broken.pdf"), "%PDF-1.4 nothing").unwrap();
    let arguments = ["ingest", docs.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let (code, _, stderr) = run(&mut program(&arguments));
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("docs/bees.md: 1 chunk\n"), "{stderr}");
    assert!(stderr.contains("broken.pdf: the pdf is damaged"), "{stderr}");
    assert!(stderr.contains("1 indexed, 0 unchanged, 1 skipped"), "{stderr}");
    let (_, _, stderr) = run(&mut program(&arguments));
    assert!(stderr.contains("0 indexed, 1 unchanged, 1 skipped"), "{stderr}");
    assert_eq!(
        run(&mut program(&["ingest", "--data", data.to_str().unwrap()])).0,
        1
    );

    let server = Served::start(&data, &[]);
    let (code, stdout, stderr) = server.ask(&["Why", "does", "a", "bee", "dance?"]);
    assert_eq!(
        (code, stdout.trim()),
        (0, "A bee dances to tell where the nectar is. [1]"),
        "{stderr}"
    );
    assert!(stderr.contains("· searching"), "{stderr}");
    assert!(stderr.contains("[1] docs/bees.md, Bees: "), "{stderr}");
    // Only one process may open the library; a wrong path is reported before opening it.
    let missing = [
        "--listen",
        "127.0.0.1:0",
        "--docs",
        "/nowhere",
        "--data",
        data.to_str().unwrap(),
    ];
    let (code, _, stderr) = run(&mut program(&missing));
    assert!(code == 1 && stderr.contains("/nowhere: No such file"), "{stderr}");
    let second = ["--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let (code, _, stderr) = run(&mut program(&second));
    assert!(
        code == 1 && stderr.contains("in use by another process"),
        "{stderr}"
    );
}

#[test]
#[cfg(unix)]
fn a_signal_during_an_answer_completes_it_and_ends_the_server() {
    let folder = tempfile::tempdir().unwrap();
    for (name, code) in [("TERM", 0), ("INT", 0)] {
        let mut server = Served::start(folder.path(), &[]);
        let mut asking = program(&["ask", "--server", &server.address, "fault:slow"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0; 6];
        asking.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        let started = Instant::now();
        server.signal(name);
        let answered = asking.wait_with_output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8([&first[..], &answered.stdout].concat()).unwrap(),
            String::from_utf8(answered.stderr).unwrap(),
        );
        assert_eq!(answered.status.code(), Some(1), "{stderr}");
        assert!(
            stdout.starts_with("word1 ") && stdout.contains("restarting"),
            "{stdout}"
        );
        assert!(stderr.contains("shutting_down"), "{stderr}");
        assert_eq!(server.child.wait().unwrap().code(), Some(code));
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{:?}",
            started.elapsed()
        );
    }
}
