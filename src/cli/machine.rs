//! The name of this machine.

/// Returns the name of this machine as the kernel has it; `None` if it has none, or none that is text. Not
/// from `/proc`, of which a service manager may hide all but the processes.
pub(super) fn name() -> Option<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_str().ok()?;
    (!name.is_empty() && name != "(none)").then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_system_says() {
        let Ok(said) = std::fs::read_to_string("/proc/sys/kernel/hostname") else { return };
        let said = said.trim();
        let said = Some(said).filter(|name| !name.is_empty() && *name != "(none)");
        assert_eq!(name().as_deref(), said);
    }
}
