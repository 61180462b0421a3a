//! The process, under the names that every Prometheus client uses. Only on Linux, where two files of
//! `/proc` have the figures.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::gauge;

#[derive(Debug, Default)]
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge,
    open_files: Gauge,
    max_files: Gauge,
}

impl Process {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let process = Self::default();
        if cfg!(target_os = "linux") {
            registry.register_with_unit(
                "process_cpu",
                "CPU time of the process, user and system",
                Unit::Seconds,
                process.cpu.clone(),
            );
            registry.register_with_unit(
                "process_resident_memory",
                "Resident memory of the process",
                Unit::Bytes,
                process.resident.clone(),
            );
            registry.register("process_open_fds", "Open files", process.open_files.clone());
            registry.register(
                "process_max_fds",
                "The limit of open files",
                process.max_files.clone(),
            );
        }
        process
    }

    pub(super) fn read(&self) {
        #[cfg(target_os = "linux")]
        if let Some(figures) = Figures::of_this_process() {
            let before = self.cpu.get();
            self.cpu.inc_by((figures.cpu_seconds - before).max(0.0));
            self.resident.set(gauge(figures.resident_bytes));
            self.open_files.set(gauge(figures.open_files));
        }
        #[cfg(unix)]
        if let Ok((soft, _)) = rlimit::Resource::NOFILE.get() {
            self.max_files
                .set(gauge(usize::try_from(soft).unwrap_or(usize::MAX)));
        }
    }
}

#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
struct Figures {
    cpu_seconds: f64,
    resident_bytes: usize,
    open_files: usize,
}

#[cfg(target_os = "linux")]
impl Figures {
    fn of_this_process() -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let (ticks, pages) = ticks_and_pages(&stat)?;
        // The folder that is read here is one of them.
        let open_files = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
        Some(Self {
            cpu_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            resident_bytes: pages * rustix::param::page_size(),
            open_files,
        })
    }
}

/// Returns the CPU time in clock ticks and the resident pages of a line of `/proc/PID/stat`: fields
/// 14, 15 and 24 of proc(5).
#[cfg(target_os = "linux")]
fn ticks_and_pages(stat: &str) -> Option<(u64, usize)> {
    // The name of the program is the only field that may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let pages = fields.nth(8)?.parse().ok()?;
    Some((user + system, pages))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 3 4 20 0 9 0 12345 99999 321 1844 1 1";
        assert_eq!(ticks_and_pages(line), Some((300, 321)));
        assert_eq!(ticks_and_pages("7 (a) S 1"), None);
        let figures = Figures::of_this_process().unwrap();
        assert!(
            figures.resident_bytes > 1 << 20 && figures.open_files > 2,
            "{figures:?}"
        );
    }
}
