//! The metrics of this process and this build.

use std::fs;

use crate::base::Time;
use crate::base::metrics::{Family, FamilyKind, Sample, SampleValue};

/// Clock ticks a second in `/proc`, the same on all machines that Linux supports today.
const TICKS_A_SECOND: f64 = 100.0;

/// Returns the metrics of a process started at `started`, under the names that Prometheus' client
/// libraries use, and the version. What `/proc` does not say is left out.
pub fn families(started: Time) -> Vec<Family> {
    let mut families = vec![
        build(),
        Family::gauge(
            "process_start_time_seconds",
            "Start of the process, in seconds since 1970",
            started.millis() as f64 / 1000.0,
        ),
    ];
    let mut add = |name, help, value: Option<f64>| {
        families.extend(value.map(|value| Family::gauge(name, help, value)));
    };
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| field(&status, name).map(|kib| kib * 1024.0);
    add("process_resident_memory_bytes", "Memory in use", kib("VmRSS:"));
    add("process_virtual_memory_bytes", "Address space in use", kib("VmSize:"));
    add("process_threads", "Threads", field(&status, "Threads:"));
    let open = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
    add("process_open_fds", "Open files and connections", open);
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    add("process_max_fds", "Limit of open files", field(&limits, "Max open files"));
    if let Some(seconds) = cpu_seconds() {
        families.push(Family::single(
            "process_cpu_seconds",
            "Processor time used",
            FamilyKind::Counter,
            SampleValue::Number(seconds),
        ));
    }
    families
}

/// Returns the memory in use, in bytes; `None` if `/proc` does not say.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(kib.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn build() -> Family {
    let labels = vec![("version", env!("CARGO_PKG_VERSION").into())];
    Family {
        name: "roadstead_build",
        help: "The version of this server",
        kind: FamilyKind::Info,
        samples: vec![Sample { labels, value: SampleValue::Number(1.0) }],
    }
}

/// Returns the number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

/// The time in user and kernel mode: the 14th and 15th field of `stat`, of which the 2nd, the name,
/// may contain spaces.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks: Vec<f64> =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse().ok()).collect();
    (ticks.len() == 2).then(|| ticks.iter().sum::<f64>() / TICKS_A_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_says_how_much_memory_is_in_use() {
        assert!(resident_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn linux_says_everything_about_this_process() {
        let families = families(Time::from_millis(1_700_000_000_123));
        let names: Vec<_> = families.iter().map(|family| family.name).collect();
        assert_eq!(
            names,
            [
                "roadstead_build",
                "process_start_time_seconds",
                "process_resident_memory_bytes",
                "process_virtual_memory_bytes",
                "process_threads",
                "process_open_fds",
                "process_max_fds",
                "process_cpu_seconds",
            ]
        );
        for family in &families {
            let SampleValue::Number(number) = family.samples[0].value else { panic!() };
            assert!(number > 0.0 || family.kind == FamilyKind::Counter, "{family:?}");
        }
    }
}
