//! The reports of servers and what follows from them.

use super::*;

fn info(lines: &[&str]) -> String {
    lines.join("\r\n")
}

#[test]
fn a_server_is_accepted_or_refused_by_its_report() {
    let sound = [
        "redis_version:7.0.15",
        "role:master",
        "maxmemory:0",
        "maxmemory_policy:noeviction",
        "aof_enabled:1",
    ];
    let with = |line: &'static str| {
        let name = line.split(':').next().unwrap();
        let kept = sound
            .iter()
            .copied()
            .filter(|sound| !sound.starts_with(&format!("{name}:")));
        info(&kept.chain([line]).collect::<Vec<_>>())
    };
    for (info, fsync, expected) in [
        (info(&sound), Some("always"), Ok(Durability::Always)),
        (info(&sound), Some("everysec"), Ok(Durability::EverySecond)),
        (info(&sound), Some("no"), Ok(Durability::EverySecond)),
        (info(&sound), None, Ok(Durability::Unknown)),
        (with("aof_enabled:0"), Some("always"), Ok(Durability::None)),
        (
            with("redis_version:6.2.0"),
            Some("always"),
            Ok(Durability::Always),
        ),
        (
            with("redis_version:10.0.1"),
            Some("always"),
            Ok(Durability::Always),
        ),
        (
            with("maxmemory_policy:allkeys-lru"),
            Some("always"),
            Ok(Durability::Always),
        ),
        (with("maxmemory:1024"), Some("always"), Ok(Durability::Always)),
        (with("cluster_enabled:0"), Some("always"), Ok(Durability::Always)),
        (with("redis_version:6.0.16"), None, Err("redis_version")),
        (with("redis_version:5.9"), None, Err("redis_version")),
        (with("redis_version:"), None, Err("redis_version")),
        (String::new(), None, Err("redis_version")),
        (with("role:slave"), None, Err("redis_replica")),
        (with("cluster_enabled:1"), None, Err("redis_cluster")),
        (
            info(&[&with("maxmemory:1024"), "x:y"]).replace("noeviction", "volatile-ttl"),
            None,
            Err("redis_evicts"),
        ),
    ] {
        let found = evaluate(&info, fsync).map_err(|error| error.code());
        assert_eq!(found, expected, "{info} {fsync:?}");
    }
}
