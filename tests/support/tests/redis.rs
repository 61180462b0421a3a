//! Tests of the Redis harness: acknowledged data survives a kill if the server is durable, and only
//! then.

use std::time::{Duration, Instant};

use ragwire_test_support::redis::{FsyncLoad, RedisServer};

#[test]
fn a_killed_server_restarts_on_its_port_with_its_durable_data() {
    let mut durable = RedisServer::durable("always");
    let mut fleeting = RedisServer::start(&[]);
    for (server, count) in [(&mut durable, "1"), (&mut fleeting, "0")] {
        let port = server.port();
        assert_eq!(server.cli(&["SET", "a", "b"]), "OK");
        server.kill();
        assert_ne!(server.cli(&["PING"]), "PONG");
        server.restart();
        assert_eq!(server.cli(&["EXISTS", "a"]), count);
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
        "the later key is lost"
    );
    durable.cli(&["SET", "later", "c"]);
    durable.kill_and_cut(1);
    durable.restart();
    assert_eq!(
        durable.cli(&["EXISTS", "a", "later"]),
        "1",
        "half a command is not applied"
    );
    durable.replace_data(None);
    durable.restart();
    assert_eq!(durable.cli(&["DBSIZE"]), "0");
}

#[test]
fn a_suspended_server_answers_when_it_resumes() {
    let server = RedisServer::start(&[("requirepass", "s3cret")]);
    assert_eq!(server.info("maxmemory_policy").as_deref(), Some("noeviction"));
    server.freeze();
    let mut command = server.cli_unanswered(&["SET", "a", "b"]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(command.try_wait().unwrap().is_none());
    server.thaw();
    assert!(command.wait().unwrap().success());
    assert_eq!(server.cli(&["GET", "a"]), "b");
}

#[test]
fn the_load_writes_and_leaves_nothing() {
    let began = Instant::now();
    drop(FsyncLoad::start(2));
    assert!(began.elapsed() < Duration::from_secs(10));
}
