//! The mistakes that new users make on the command line: each gets a message with the value and what
//! to write instead.

use super::{program, run};

/// Arguments, the exit status, and what stderr has to say.
type Mistake = (&'static str, i32, &'static [&'static str]);

const DOWN: &[&str] = &[
    "cannot reach http://127.0.0.1:1: ",
    "is it running, and is --server its address?",
];
const LISTEN: &[&str] = &["'--port'", "--listen 8080 sets the port"];
const NOT_ADDRESS: &str = "write 8787 for this machine alone, or 0.0.0.0:8787 for the network";

const MISTAKES: &[Mistake] = &[
    // Names of commands and flags.
    ("asks", 2, &["'asks'", "a similar subcommand exists: 'ask'"]),
    (
        "start",
        2,
        &["'start'", "`ragwire-server serve` starts the server"],
    ),
    ("version", 2, &["'version'", "`ragwire-server --version`"]),
    ("upload", 2, &["'upload'", "`ragwire-server documents add PATH`"]),
    ("list", 2, &["'list'", "`ragwire-server documents list`"]),
    ("chat", 2, &["'chat'", "`ragwire-server ask QUESTION`"]),
    ("status", 2, &["'status'", "`ragwire-server health`"]),
    ("backup", 2, &["'backup'", "`ragwire-server export FILE`"]),
    ("notes.md", 2, &["'notes.md'", "`ragwire-server --docs notes.md`"]),
    (
        "serve notes.md",
        2,
        &["'notes.md'", "`ragwire-server --docs notes.md`"],
    ),
    ("--port 8080", 2, LISTEN),
    ("--host 0.0.0.0", 2, &["'--host'", "--listen 8080 sets the port"]),
    (
        "--model qwen3",
        2,
        &[
            "'--model'",
            "--llm-url http://127.0.0.1:11434/v1 --llm-model NAME",
        ],
    ),
    (
        "--ollama llama3",
        2,
        &["'--ollama'", "--llm-url http://127.0.0.1:11434/v1"],
    ),
    ("--api-key sk-1", 2, &["'--api-key'", "RAGWIRE_LLM_KEY"]),
    ("--llm-key sk-1", 2, &["--llm-key", "RAGWIRE_LLM_KEY"]),
    ("--folder papers", 2, &["'--folder'", "--docs PATH"]),
    ("--verbose", 2, &["'--verbose'", "RUST_LOG=debug"]),
    ("-v", 2, &["'-v'", "RUST_LOG=debug"]),
    ("--cors http://a", 2, &["'--cors'", "--allow-origin"]),
    ("--login", 2, &["'--login'", "--owner-header"]),
    ("--max-turn 4", 2, &["'--max-turn'", "'--max-turns'"]),
    ("--listen 8080 ask why", 2, &["'ask'", "flags follow the command"]),
    ("ask --stream x", 2, &["'--stream'", "answers are streamed"]),
    (
        "ask --url http://a x",
        2,
        &["'--url'", "--server http://127.0.0.1:8787"],
    ),
    (
        "health http://127.0.0.1:1",
        2,
        &["'http://127.0.0.1:1'", "write --server http://127.0.0.1:1"],
    ),
    (
        "config init file.toml",
        2,
        &["'file.toml'", "`ragwire-server config init > file.toml`"],
    ),
    (
        "health 127.0.0.1:8787",
        2,
        &["'127.0.0.1:8787'", "write --server 127.0.0.1:8787"],
    ),
    (
        "config init -o a.toml",
        2,
        &["'-o'", "`ragwire-server config init > ragwire.toml`"],
    ),
    (
        "completions tcsh",
        2,
        &["'tcsh'", "bash, elvish, fish, powershell, zsh"],
    ),
    ("documents add", 2, &["<PATH>"]),
    ("sessions rm", 2, &["<IDS>"]),
    // Values.
    ("--listen here", 2, &["`here`", NOT_ADDRESS]),
    (
        "--listen 127.0.0.1",
        2,
        &["`127.0.0.1` has no port; write 127.0.0.1:8787"],
    ),
    ("--listen ::1", 2, &["`::1` has no port; write [::1]:8787"]),
    (
        "--listen 127.0.0.1:99999",
        2,
        &["`127.0.0.1:99999`", "port up to 65535", NOT_ADDRESS],
    ),
    (
        "--max-upload-size 20 MB",
        2,
        &["the value of --max-upload-size ends at the space before `MB`"],
    ),
    (
        "--max-upload-size 1TB",
        2,
        &[
            "max-body-memory (128MiB)",
            "max-upload-size (1TB); raise the former",
        ],
    ),
    (
        "--max-upload-size 0",
        2,
        &["`0` is out of range: write more than zero"],
    ),
    (
        "--max-upload-size lots",
        2,
        &["`lots`", "write 4096, 8KiB or 32MiB"],
    ),
    (
        "--max-turns 0",
        2,
        &["`0` is not a whole number from 1 to 1000000"],
    ),
    (
        "--max-turns -1",
        2,
        &["`-1` is a negative value, and no setting takes one"],
    ),
    (
        "--max-turns 1.5",
        2,
        &["`1.5` is not a whole number from 1 to 1000000"],
    ),
    (
        "--max-turns",
        2,
        &["a value is required for '--max-turns <NUMBER>'"],
    ),
    (
        "--drain 5",
        2,
        &["`5` is not a duration; write 10s, 500ms, 2m or 24h"],
    ),
    (
        "--drain soon",
        2,
        &["`soon` is not a duration; write 10s, 500ms, 2m or 24h"],
    ),
    (
        "--keep-alive 3m",
        2,
        &["keep-alive (3m) must be less than idle-timeout (2m)"],
    ),
    (
        "--client-share 120",
        2,
        &["`120` is not a share from 1 to 100 percent"],
    ),
    ("--graph=maybe", 2, &["`maybe` is neither true nor false"]),
    ("--judge maybe", 2, &["`maybe`", "words, model"]),
    ("--judge model", 2, &["judge requires llm or llm-url"]),
    ("--store sqlite", 2, &["`sqlite`", "memory, qdrant-edge, qdrant"]),
    ("--llm-model m", 2, &["llm-model requires llm-url"]),
    ("--llm-url ollama", 2, &["llm-url", "write http://host:port/v1"]),
    (
        "--llm-url http://u:p@h/v1",
        2,
        &["llm-url", "a key belongs in its own setting"],
    ),
    (
        "--reranker-url nonsense",
        2,
        &["reranker-url", "write http://host:port/v1"],
    ),
    ("--redis foo", 2, &["redis", "write redis://host:6379"]),
    ("--redis rediss://h:1", 2, &["redis", "TLS is not supported"]),
    (
        "--redis-durability sometimes",
        2,
        &["`sometimes`", "none, every-second or always"],
    ),
    (
        "--owner-header x:user",
        2,
        &["`x:user` is not a header name; write x-user"],
    ),
    (
        "--allow-host http://a.example",
        2,
        &["`http://a.example`", "write example.org"],
    ),
    (
        "--allow-origin a.example",
        2,
        &["`a.example`", "write https://example.org"],
    ),
    (
        "--orchestrator foo",
        2,
        &["orchestrator", "exec:PROGRAM ARGUMENTS"],
    ),
    (
        "--orchestrator exec:",
        2,
        &["it names no program; write exec:PROGRAM ARGUMENTS"],
    ),
    (
        "--orchestrator-wire xml",
        2,
        &["orchestrator-wire requires orchestrator"],
    ),
    (
        "ask --server ftp://a x",
        2,
        &["`ftp://a`", "write http://127.0.0.1:8787"],
    ),
    (
        "ask --header nonsense x",
        2,
        &["'nonsense'", "write 'x-user: ada'"],
    ),
    (
        "ask --effort huge x",
        2,
        &["`huge`", "none, low, medium, high, xhigh"],
    ),
    (
        "ask --server 127.0.0.1:1",
        2,
        &["no question; write it after `ask`"],
    ),
    ("ask --wire xml x", 2, &["`xml`", "framed, sse, ndjson"]),
    ("ask --mode fast x", 2, &["`fast`", "agentic, direct"]),
    ("ask --service rag x", 2, &["`rag`", "graph-rag, document-rag"]),
    (
        "ask --service graph-rag --limit x=y x",
        2,
        &["`x=y`", "write entity-limit=10"],
    ),
    (
        "ask --no-streaming --wire sse x",
        2,
        &["no-streaming and wire contradict each other"],
    ),
    (
        "eval questions.json --min-hit1 2",
        2,
        &["`2` is not a share: write a number from 0 to 1"],
    ),
    // Files.
    (
        "--config missing.toml",
        2,
        &["missing.toml", "`ragwire-server config init` prints one"],
    ),
    ("--config folder", 2, &["folder: Is a directory"]),
    (
        "--config unknown.toml",
        2,
        &["unknown.toml", "did you mean `max-turns`?"],
    ),
    (
        "--config strange.toml",
        2,
        &["`colour`; `ragwire-server config init` lists all keys"],
    ),
    (
        "--config eight.toml",
        2,
        &["eight.toml", "line 1", "`eight` is not a whole number"],
    ),
    ("--config broken.toml", 2, &["broken.toml", "line 1"]),
    (
        "--docs missing --listen 0",
        1,
        &["cannot read missing: No such file"],
    ),
    (
        "--data notes.md --listen 0",
        1,
        &["library in notes.md", "name another folder with --data"],
    ),
    (
        "check --data missing",
        1,
        &["missing does not exist; name the folder of the server with --data"],
    ),
    (
        "--orchestrator exec:missing --listen 0",
        1,
        &["orchestrator missing: the process cannot be started"],
    ),
    ("ingest", 1, &["no paths to index; name files or folders"]),
    ("ingest missing", 1, &["cannot read missing: No such file"]),
    ("documents add missing.md", 1, &["missing.md: No such file"]),
    ("man missing", 1, &["into missing", "name a folder that exists"]),
    ("eval missing.json", 2, &["missing.json: No such file"]),
    (
        "eval questions.json",
        2,
        &["questions.json: it has no list of questions; write {\"questions\""],
    ),
    // Servers.
    (
        "--llm-url 127.0.0.1:1 --listen 0",
        1,
        &["--llm-url", "start that server first"],
    ),
    (
        "--redis redis://127.0.0.1:1 --listen 0",
        1,
        &["--redis", "start it, or correct the address"],
    ),
    (
        "--llm-url http://127.0.0.1:1/v1 --listen 0",
        1,
        &["--llm-url", "start that server first"],
    ),
    (
        "--embedder-url http://127.0.0.1:1 --listen 0",
        1,
        &["--embedder-url", "start that server first"],
    ),
    ("ask --server 127.0.0.1:1 x", 2, DOWN),
    (
        "ask --server https://127.0.0.1:1 x",
        2,
        &["cannot reach https://127.0.0.1:1: "],
    ),
    ("documents list --server 127.0.0.1:1", 1, DOWN),
    ("sessions list --server 127.0.0.1:1", 1, DOWN),
    ("health --server 127.0.0.1:1", 1, DOWN),
];

#[test]
fn each_mistake_gets_its_value_and_the_fix() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    file("notes.md", "# Notes");
    file("unknown.toml", "max-turn = 3\n");
    file("strange.toml", "colour = 3\n");
    file("eight.toml", "max-turns = \"eight\"\n");
    file("broken.toml", "max-turns = \n");
    file("questions.json", "{\"questions\": 3}");
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let mut wrong = Vec::new();
    for (arguments, status, said) in MISTAKES {
        let words: Vec<_> = arguments.split(' ').collect();
        let (code, stdout, stderr) = run(program(&words).current_dir(folder.path()));
        let missing: Vec<_> = said.iter().filter(|said| !stderr.contains(**said)).collect();
        if code != *status || !stdout.is_empty() || !missing.is_empty() {
            wrong.push(format!(
                "{arguments}: {code}, without {missing:?}:\n{stdout}{stderr}"
            ));
        }
        // Messages name the problem, not the program's source.
        assert!(
            !stderr.contains("panicked") && !stderr.contains(".rs:"),
            "{arguments}: {stderr}"
        );
    }
    assert!(MISTAKES.len() >= 50);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
