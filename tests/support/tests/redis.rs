//! The harness does what it says: what is acknowledged survives where it is durable, and only there.

use std::time::{Duration, Instant};

use ragwire_test_support::redis::{FsyncLoad, RedisServer};

#[test]
fn a_killed_server_comes_back_on_its_port_with_what_it_keeps() {
    let mut durable = RedisServer::durable("always");
    let mut fleeting = RedisServer::start(&[]);
    for (server, kept) in [(&mut durable, "1"), (&mut fleeting, "0")] {
        let port = server.port();
        assert_eq!(server.cli(&["SET", "a", "b"]), "OK");
        server.kill();
        assert_ne!(server.cli(&["PING"]), "PONG");
        server.restart();
        assert_eq!(server.cli(&["EXISTS", "a"]), kept);
        assert_eq!(server.port(), port);
    }
    let copy = tempfile::tempdir().unwrap();
    durable.copy_data(&copy.path().join("data"));
    durable.cli(&["SET", "later", "c"]);
    durable.replace_data(Some(&copy.path().join("data")));
    durable.restart();
    assert_eq!(
        durable.cli(&["EXISTS", "a", "later"]),
        "1",
        "the later one is lost"
    );
    durable.cli(&["SET", "later", "c"]);
    durable.kill_and_cut(1);
    durable.restart();
    assert_eq!(
        durable.cli(&["EXISTS", "a", "later"]),
        "1",
        "half a command is none"
    );
    durable.replace_data(None);
    durable.restart();
    assert_eq!(durable.cli(&["DBSIZE"]), "0");
}

#[test]
fn a_frozen_server_answers_when_it_is_thawed() {
    let server = RedisServer::start(&[("requirepass", "s3cret")]);
    assert_eq!(server.info("maxmemory_policy").as_deref(), Some("noeviction"));
    server.freeze();
    let mut asked = server.cli_unanswered(&["SET", "a", "b"]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(asked.try_wait().unwrap().is_none());
    server.thaw();
    assert!(asked.wait().unwrap().success());
    assert_eq!(server.cli(&["GET", "a"]), "b");
}

#[test]
fn the_load_writes_and_leaves_nothing() {
    let began = Instant::now();
    drop(FsyncLoad::start(2));
    assert!(began.elapsed() < Duration::from_secs(10));
}
