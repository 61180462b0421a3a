//! A disk that is full for a while.

use super::*;
use crate::session::Role;

#[tokio::test]
async fn a_full_disk_refuses_changes_and_everything_works_once_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let limits = SessionLimits::default();
    let path = folder.path().join("sessions.db");
    let open = move || SessionFile::open(&path, limits, Clock::default());
    let worker = Arc::new(Worker::start(open).await.unwrap());
    let sessions = Sessions::new(limits, Arc::clone(&worker));
    let set_pages = async |pages: u32| {
        let sql = format!("PRAGMA max_page_count = {pages}");
        let set = worker.run(move |file| Ok(file.connection.query_row(&sql, [], |_| Ok(()))?));
        set.await.unwrap();
    };
    let append = async |text: &str| {
        let appended = sessions.append("o", "s", Role::User, text).await;
        appended.map(drop).map_err(|error| error.code())
    };
    // More than what is free in the pages of the file.
    let long = "two".repeat(20_000);
    sessions.get_or_begin("o", "s").await.unwrap();
    assert_eq!(append("one").await, Ok(()));
    for _ in 0..2 {
        set_pages(1).await;
        for _ in 0..3 {
            assert_eq!(append(&long).await, Err("sessions_no_space"));
            assert!(sessions.is_out_of_space());
        }
        set_pages(u32::MAX).await;
        assert_eq!(append("three").await, Ok(()));
        assert!(!sessions.is_out_of_space());
    }
    let session = sessions.get("o", "s").await.unwrap();
    let texts: Vec<String> = session.messages.into_iter().map(|message| message.text).collect();
    assert_eq!(texts, ["one", "three", "three"]);
}
