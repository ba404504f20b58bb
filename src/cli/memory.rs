//! The memory of the process: it holds the installation's key and secrets in clear text, and few
//! bytes that nothing uses.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Makes sure that a crash writes no image of the memory to the disk, and that other processes of
/// the same user cannot read it.
pub fn disable_core_dumps() {
    // They cannot fail; if they did, it would be no reason to refuse the command.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
}

/// Keeps the kernel from backing memory with huge pages. The allocator asks for them; but most
/// memory is taken for a moment, and each of their 2 MiB is zeroed when the first byte is used, and
/// kept for the last. Without them an idle server has 24 MB instead of 38, and large texts are
/// published half as fast again.
pub fn use_small_pages() {
    // A kernel without them refuses.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
