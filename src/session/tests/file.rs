//! What only a file can do: be in use, damaged, of another version, and outlive a process that is killed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{Database, TableDefinition};

use crate::session::{Role, SessionError, SessionLimits, Sessions};

/// A folder that is gone with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("ragwire-sessions-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("sessions.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
async fn a_file_is_one_stores_at_a_time() {
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
async fn what_is_no_session_file_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "# Birds\n".repeat(4096)).unwrap();
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
    std::fs::write(folder.file(), "x").unwrap();
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
    let nowhere = folder.file().join("nowhere");
    assert_eq!(code(&nowhere).await, "sessions_storage");
    assert_eq!(code(&folder.0).await, "sessions_storage");

    std::fs::remove_file(folder.file()).unwrap();
    const OTHERS: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    write(&folder.file(), OTHERS, "version", 1);
    assert_eq!(code(&folder.file()).await, "sessions_damaged");
    const META: TableDefinition<'_, &str, u64> = TableDefinition::new("session_meta");
    write(&folder.file(), META, "version", 7);
    let refused = open(&folder.file()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the session file has format 7, and this program reads 1"
    );
    // It was only looked at.
    write(&folder.file(), META, "version", 1);
    assert_eq!(code(&folder.file()).await, "opened");
}

fn write(file: &Path, table: TableDefinition<'_, &str, u64>, name: &str, value: u64) {
    let database = Database::create(file).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(table).unwrap().insert(name, value).unwrap();
    write.commit().unwrap();
}

#[tokio::test]
async fn a_damaged_file_is_refused_or_read_as_it_was_written() {
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
    // A byte of every page and around, and files that are cut.
    for place in (0..whole.len()).step_by(whole.len() / 97) {
        let mut damaged = whole.clone();
        if place % 2 == 0 {
            damaged[place] ^= 0x55;
        } else {
            damaged.truncate(place);
        }
        let copy = folder.0.join("copy.redb");
        std::fs::write(&copy, damaged).unwrap();
        match open(&copy).await {
            Err(SessionError::Damaged(_) | SessionError::Storage(_) | SessionError::Version { .. }) => {
                refused += 1
            }
            Err(other) => panic!("{other:?}"),
            Ok(sessions) => {
                opened += 1;
                for id in ["s0", "s1", "s2", "s3"] {
                    // What can be read is what was written; an older state of it after a repair.
                    if let Ok(session) = sessions.get("o", id).await {
                        let found = session.messages.iter().map(|message| &message.text);
                        assert!(found.into_iter().all(|text| texts.contains(text)), "{place}");
                    }
                }
            }
        }
    }
    assert!(refused > 0 && opened > 0, "{refused} {opened}");
}

/// The child of the next test: appends numbers for ever, and says each one that is acknowledged.
#[tokio::test]
#[ignore = "it is run, and killed, by the next test"]
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
async fn a_process_that_is_killed_loses_nothing_that_was_acknowledged() {
    let folder = Folder::new();
    let mut last = 0;
    for round in 0..10_usize {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
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
        // The last one may be on the disk without having been acknowledged.
        assert!(
            found.len() == last + 1 || found.len() == last + 2,
            "{} {last}",
            found.len()
        );
    }
    assert!(last > 100, "{last}");
}
