//! Processor time, which other programs on the machine change less than they change the clock.

use std::fs;
use std::time::Duration;

/// What all threads of this process but the one that asks have used, and those that ended not.
pub fn others() -> Duration {
    let own = fs::read_link("/proc/thread-self").expect("this is Linux");
    let own = own.file_name().expect("it names the thread").to_owned();
    let threads = fs::read_dir("/proc/self/task").expect("this is Linux");
    let nanos = threads.filter_map(|thread| {
        let thread = thread.ok()?;
        if thread.file_name() == own {
            return None;
        }
        let used = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        used.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
