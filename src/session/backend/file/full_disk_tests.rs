//! A disk that is full for a while.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use redb::backends::FileBackend;

use super::*;

/// A disk without room while `full` is set: nothing is written.
#[derive(Debug)]
struct Disk {
    file: FileBackend,
    full: Arc<AtomicBool>,
}

impl Disk {
    fn check(&self) -> io::Result<()> {
        match self.full.load(Ordering::SeqCst) {
            true => Err(ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

#[tokio::test]
async fn a_full_disk_refuses_changes_and_everything_works_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.redb");
    let full = Arc::new(AtomicBool::new(false));
    let open = {
        let full = Arc::clone(&full);
        move || {
            let file = std::fs::File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(redb::StorageError::from)?;
            let full = Arc::clone(&full);
            builder().create_with_backend(Disk {
                file: FileBackend::new(file)?,
                full,
            })
        }
    };
    let limits = SessionLimits::default();
    let database = open().unwrap();
    let database = SessionDatabase::with_database(database, Box::new(open), limits, Clock::default());
    let sessions = Sessions::new(limits, File(Arc::new(database.unwrap())));
    let text = |session: crate::session::Session| -> Vec<String> {
        session.messages.into_iter().map(|message| message.text).collect()
    };
    let append = async |text: &str| {
        let appended = sessions.append("o", "s", crate::session::Role::User, text).await;
        appended.map(drop).map_err(|error| error.code())
    };
    sessions.get_or_begin("o", "s").await.unwrap();
    assert_eq!(append("one").await, Ok(()));
    for _ in 0..2 {
        full.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            assert_eq!(append("two").await, Err("sessions_no_space"));
            assert!(sessions.is_out_of_space());
        }
        full.store(false, Ordering::SeqCst);
        assert_eq!(append("three").await, Ok(()));
        assert!(!sessions.is_out_of_space());
    }
    assert_eq!(
        text(sessions.get("o", "s").await.unwrap()),
        ["one", "three", "three"]
    );
}
