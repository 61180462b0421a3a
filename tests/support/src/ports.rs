//! Ports for servers that are started as processes, and for addresses where nothing listens.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below those that the system assigns by itself (32768 on Linux): the port of a killed server
/// stays free for its restart, and no test that runs at the same time gets it.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// Returns a free port that no other test of this process has got.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that start at the same time begin at different ports.
    let process = u16::try_from(std::process::id() % u32::from(PORTS)).unwrap_or(0);
    for _ in 0..PORTS {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST_PORT + (process.wrapping_mul(7).wrapping_add(next)) % PORTS;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
