//! The Debian package.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Packages, packages, version};
use crate::optional::{needs_root, program, run, works};

/// The package and the tool that reads it; none where either is missing, which is said aloud.
fn package() -> Option<&'static Packages> {
    program("dpkg-deb", "dpkg", "dpkg").and_then(|_| packages())
}

#[test]
fn the_debian_package_has_its_program_its_unit_and_its_settings() {
    let Some(packages) = package() else { return };
    let package = packages.file(".deb");
    let field = |name: &str| run(Command::new("dpkg-deb").arg("-f").arg(package).arg(name));
    assert_eq!(field("Package"), "roadstead\n");
    assert_eq!(field("Version"), format!("{}\n", packages.version.replace('-', "~")));
    assert_eq!(field("Maintainer"), "Somebody <somebody@roadstead.invalid>\n");

    let place = packages.place.path().join("extracted");
    run(Command::new("dpkg-deb").arg("-R").arg(package).arg(&place));
    assert_eq!(version(&place.join("usr/bin/roadstead")), version(&packages.program));
    let settings = fs::metadata(place.join("etc/roadstead.env")).unwrap();
    assert_eq!(settings.permissions().mode() & 0o777, 0o600);
    let conffiles = fs::read_to_string(place.join("DEBIAN/conffiles")).unwrap();
    assert_eq!(conffiles, "/etc/roadstead.env\n");
    for name in ["roadstead.service", "roadstead-backup.service"] {
        let unit = fs::read_to_string(place.join("usr/lib/systemd/system").join(name)).unwrap();
        assert!(unit.contains("/usr/bin/roadstead ") && !unit.contains("/usr/local"), "{unit}");
        assert!(!unit.contains("DynamicUser") && !unit.contains("/var/lib/private"), "{unit}");
    }
}

#[test]
fn the_unit_of_the_package_starts_once_a_setting_is_given() {
    let Some(packages) = package() else { return };
    let place = packages.place.path().join("with-unit");
    run(Command::new("dpkg-deb").arg("-x").arg(packages.file(".deb")).arg(&place));
    let unit = place.join("usr/lib/systemd/system/roadstead.service");
    let unit = fs::read_to_string(unit).unwrap();
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecCondition=")).unwrap();
    let script = line.strip_prefix("/bin/sh -c '").and_then(|rest| rest.strip_suffix('\''));
    let condition = |variables: &[(&str, &str)]| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script.unwrap()]).env_clear().envs(variables.iter().copied());
        shell.env("PATH", std::env::var("PATH").unwrap()).output().unwrap()
    };
    if let Some(systemd) = program("systemd-analyze", "systemd", "systemd") {
        let checked = place.join("roadstead.service");
        let own = packages.program.to_str().unwrap();
        fs::write(&checked, unit.replace("/usr/bin/roadstead", own)).unwrap();
        let verified = Command::new(systemd).args(["verify", "--man=no"]).arg(checked).output();
        let said = String::from_utf8_lossy(&verified.unwrap().stderr).into_owned();
        assert!(!said.contains("roadstead.service:"), "{said}");
    }
    let settings = [("ROADSTEAD_LISTEN", "127.0.0.1:7420")];
    assert_eq!(condition(&settings).status.code(), Some(0));
    let refused = condition(&[("LANG", "C")]);
    // Up to 254 the unit is passed over, and has not failed.
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("/etc/roadstead.env"));
}

#[test]
fn lintian_finds_no_error_in_the_package() {
    let (Some(packages), Some(lintian)) = (package(), program("lintian", "lintian", "lintian"))
    else {
        return;
    };
    // Where there is no `strip`; and without a static program, that its libraries have no versions.
    let suppressed = "unstripped-binary-or-object,missing-dependency-on-libc";
    let mut lint = Command::new(lintian);
    lint.args(["--fail-on", "error", "--suppress-tags", suppressed]);
    if rustix::process::geteuid().is_root() {
        lint.arg("--allow-root");
    }
    run(lint.arg(packages.file(".deb")));
}

/// The package of a later version, with a setting more.
fn later(packages: &Packages) -> PathBuf {
    let place = packages.place.path().join("later");
    run(Command::new("dpkg-deb").arg("-R").arg(packages.file(".deb")).arg(&place));
    let control = place.join("DEBIAN/control");
    let version = format!("Version: {}", packages.version.replace('-', "~"));
    let text = fs::read_to_string(&control).unwrap();
    fs::write(control, text.replace(&version, &format!("{version}+1"))).unwrap();
    let settings = place.join("etc/roadstead.env");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(settings, format!("{text}# of the second\n")).unwrap();
    let file = packages.place.path().join("later.deb");
    run(Command::new("dpkg-deb").args(["-Zgzip", "-z1", "-b"]).arg(place).arg(&file));
    file
}

/// Why packages cannot be installed on a copy of this machine's file system.
fn cannot_install(place: &Path) -> Option<&'static str> {
    let overlay = "mount -t tmpfs tmpfs \"$0\" && cd \"$0\" && mkdir upper work root && \
                   mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root && \
                   mount --rbind /proc root/proc && mount --rbind /dev root/dev && \
                   mount -t tmpfs tmpfs root/run && test ! -e root/var/lib/roadstead && \
                   test -s root/var/lib/dpkg/status && chroot root setpriv --version";
    let try_it = ["--mount", "--propagation", "private", "sh", "-c", overlay];
    if !works("systemd-sysusers", &["--version"]) {
        Some("systemd is not installed")
    } else if !works("unshare", &[&try_it[..], &[place.to_str().unwrap()]].concat()) {
        Some("there is no copy of this machine's file system to install it on")
    } else {
        None
    }
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged_and_the_data_stay_unless_asked() {
    let Some(packages) = package() else { return };
    let place = packages.place.path().join("machine");
    fs::create_dir(&place).unwrap();
    let missing = cannot_install(&place);
    if needs_root("INSTALL", "dpkg, installing and purging", missing) {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/packages/install.sh");
    let mut install = Command::new("unshare");
    install.args(["--mount", "--propagation", "private", "sh"]).arg(script).arg(&place);
    install.arg(packages.file(".deb")).arg(later(packages));
    for name in ["ROADSTEAD_STATIC", "ROADSTEAD_DATA"] {
        install.env_remove(name);
    }
    let said = run(&mut install);
    assert!(said.contains("\n== purged without data\n"), "{said}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "its mounts are seen outside");
}

/// Where the scripts of a package cannot run, its files are at least put in their places.
#[test]
fn the_package_is_unpacked_below_another_root() {
    let Some(packages) = package() else { return };
    let root = packages.place.path().join("other-root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let mut unpack = Command::new("dpkg");
    unpack.arg(format!("--root={}", root.display())).args(["--force-not-root", "--force-depends"]);
    unpack.args(["--force-bad-path", "--no-triggers", "--unpack"]).arg(packages.file(".deb"));
    run(&mut unpack);
    assert_eq!(version(&root.join("usr/bin/roadstead")), version(&packages.program));
}
