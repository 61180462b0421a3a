//! The suite on a session file, and what is special about files: they can be in use, damaged or of
//! another version, and they outlive a killed process.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Storage, model, run_suite};
use crate::session::clock::Clock;
use crate::session::{Role, SessionError, SessionLimits, Sessions};

/// A folder for one session file.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("sessions.db")
    }
}

impl Storage for Folder {
    async fn open(&self, limits: SessionLimits, clock: Clock) -> Sessions {
        Sessions::open_with(&self.file(), limits, clock).await.unwrap()
    }
}

run_suite!(Folder::new());

proptest! {
    // Few cases: each change is on the disk before the next one.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_file_behaves_like_a_plain_map(steps in model::steps()) {
        model::run(Folder::new(), steps);
    }
}

async fn open(file: &Path) -> Result<Sessions, SessionError> {
    Sessions::open(
        file,
        SessionLimits::default()
            .max_messages(usize::MAX)
            .max_bytes(usize::MAX),
    )
    .await
}

async fn code(file: &Path) -> &'static str {
    match open(file).await {
        Ok(_) => "opened",
        Err(error) => error.code(),
    }
}

#[tokio::test]
async fn only_one_store_at_a_time_has_a_file_open() {
    let folder = Folder::new();
    let first = open(&folder.file()).await.unwrap();
    assert_eq!(code(&folder.file()).await, "sessions_in_use");
    let clone = first.clone();
    drop(first);
    assert_eq!(code(&folder.file()).await, "sessions_in_use");
    drop(clone);
    assert_eq!(code(&folder.file()).await, "opened");
}

#[tokio::test]
async fn a_file_of_another_kind_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "# Birds\n".repeat(4096)).unwrap();
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
    std::fs::write(folder.file(), "x").unwrap();
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
    let nowhere = folder.file().join("nowhere");
    assert_eq!(code(&nowhere).await, "sessions_storage");
    assert_eq!(code(folder.0.path()).await, "sessions_storage");

    std::fs::write(folder.file(), "").unwrap();
    assert_eq!(code(&folder.file()).await, "sessions_damaged");

    // A database of another program.
    std::fs::remove_file(folder.file()).unwrap();
    execute(&folder.file(), "CREATE TABLE sessions (id)");
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
    std::fs::remove_file(folder.file()).unwrap();
    drop(open(&folder.file()).await.unwrap());
    execute(&folder.file(), "PRAGMA user_version = 7");
    let refused = open(&folder.file()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "session file has format 7, this program reads format 2"
    );
    // Refusing the file has not changed it.
    execute(&folder.file(), "PRAGMA user_version = 2");
    assert_eq!(code(&folder.file()).await, "opened");
    execute(&folder.file(), "DROP TABLE sessions");
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
}

fn execute(file: &Path, sql: &str) {
    Connection::open(file).unwrap().execute_batch(sql).unwrap();
}

/// Values are read as they were written, or not at all.
#[tokio::test]
async fn a_changed_record_is_damage() {
    for change in [
        "UPDATE sessions SET value = replace(value, 'wren', 'crow')",
        "UPDATE sessions SET owner = 'x'",
        "UPDATE sessions SET id = 'x'",
        "UPDATE sessions SET stamp = stamp + 1",
        "UPDATE sessions SET value = CAST(value AS TEXT)",
        "DELETE FROM meta",
    ] {
        let folder = Folder::new();
        let sessions = open(&folder.file()).await.unwrap();
        sessions.get_or_begin("o", "s").await.unwrap();
        sessions.append("o", "s", Role::User, "a wren").await.unwrap();
        drop(sessions);
        assert_eq!(code(&folder.file()).await, "opened");
        execute(&folder.file(), change);
        assert_eq!(code(&folder.file()).await, "sessions_damaged", "{change}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_refused_or_returns_what_was_written() {
    let folder = Folder::new();
    let sessions = open(&folder.file()).await.unwrap();
    let texts: Vec<String> = (0..20).map(|number| format!("{number}").repeat(400)).collect();
    for (number, text) in texts.iter().enumerate() {
        let id = format!("s{}", number % 4);
        sessions.get_or_begin("o", &id).await.unwrap();
        sessions.append("o", &id, Role::User, text).await.unwrap();
    }
    drop(sessions);
    let whole = std::fs::read(folder.file()).unwrap();
    let (mut refused, mut opened) = (0, 0);
    // Damages a byte in or near every page, or cuts the file there.
    for offset in (0..whole.len()).step_by(whole.len() / 97) {
        let mut damaged = whole.clone();
        if offset % 2 == 0 {
            damaged[offset] ^= 0x55;
        } else {
            damaged.truncate(offset);
        }
        let copy = folder.0.path().join("copy.db");
        std::fs::write(&copy, damaged).unwrap();
        match open(&copy).await {
            Err(SessionError::Damaged(_) | SessionError::Storage(_) | SessionError::Version { .. }) => {
                refused += 1
            }
            Err(other) => panic!("{other:?}"),
            Ok(sessions) => {
                opened += 1;
                for id in ["s0", "s1", "s2", "s3"] {
                    // A repair may restore an older state, but every message is one that was
                    // written.
                    if let Ok(session) = sessions.get("o", id).await {
                        let found = session.messages.iter().map(|message| &message.text);
                        assert!(
                            found.into_iter().all(|text| texts.contains(text)),
                            "offset {offset}"
                        );
                    }
                }
            }
        }
    }
    assert!(refused > 0 && opened > 0, "{refused} {opened}");
}

/// The child process of the next test: appends numbers for ever and prints each acknowledged one.
/// Does nothing when it is run as a test.
#[tokio::test]
async fn appends_until_it_is_killed() {
    let Some(file) = std::env::var_os("RAGWIRE_TEST_SESSIONS") else {
        return;
    };
    let sessions = open(Path::new(&file)).await.unwrap();
    let begun = sessions.get_or_begin("o", "s").await.unwrap();
    for number in begun.messages.len().. {
        sessions
            .append("o", "s", Role::User, &number.to_string())
            .await
            .unwrap();
        eprintln!("{number}");
    }
}

#[tokio::test]
async fn a_killed_process_loses_no_acknowledged_change() {
    let folder = Folder::new();
    let mut last = 0;
    for round in 0..10_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("session::tests::file::appends_until_it_is_killed")
            .env("RAGWIRE_TEST_SESSIONS", folder.file())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..=round * 3 {
            last = lines.next().unwrap().unwrap().parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines {
            last = line.unwrap().parse().unwrap();
        }
        let session = open(&folder.file()).await.unwrap().get("o", "s").await.unwrap();
        let found: Vec<String> = session.messages.into_iter().map(|message| message.text).collect();
        let expected: Vec<String> = (0..found.len()).map(|number| number.to_string()).collect();
        assert_eq!(found, expected);
        // The last change may be on the disk without having been acknowledged.
        assert!(
            found.len() == last + 1 || found.len() == last + 2,
            "{} {last}",
            found.len()
        );
    }
    assert!(last > 100, "{last}");
}
