//! The memory of the process, which holds the installation's key and secrets in clear text.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Makes sure that a crash writes no image of the memory to the disk, and that other processes of
/// the same user cannot read it.
pub fn disable_core_dumps() {
    // They cannot fail; if they did, it would be no reason to refuse the command.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}
