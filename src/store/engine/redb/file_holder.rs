//! Finds the process that has a file open, to name it in a message.

use std::fs;
use std::path::Path;

/// Says that a database is in use by another process, with that process's id.
pub fn in_use(path: &Path) -> String {
    let pid = holder(path).map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    format!("is in use by another process{pid}")
}

/// Returns the id of another process that has this file open. None if it is not visible: it is
/// another user's, or there is no `/proc`.
fn holder(path: &Path) -> Option<u32> {
    let path = fs::canonicalize(path).ok()?;
    let own: u32 = fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()?;
    let ids = fs::read_dir("/proc").ok()?.flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id != own).find(|id| {
        let open = fs::read_dir(format!("/proc/{id}/fd")).into_iter().flatten().flatten();
        open.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == path))
    })
}
