"""The program: how it is built statically, and what it says of itself."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import audit
from .crates import ROOT

# Of an ELF file: the machine by its number, as Rust, Debian and images call it.
MACHINES = {62: ("x86_64", "amd64", "amd64"), 183: ("aarch64", "arm64", "arm64")}
PT_INTERP = 3

# Of Cargo.toml: what is given away.
PROFILE = "dist"


@dataclass(frozen=True)
class Program:
    """A program to be packaged."""
    content: bytes
    version: str
    commit: str | None
    # The machine that it is for, as Rust, Debian and images call it.
    rust: str
    debian: str
    image: str
    is_static: bool
    # Manual pages by name, and the completions of each shell.
    manuals: dict[str, bytes]
    completions: dict[str, bytes]


def host():
    """The target of this machine, as rustc calls it."""
    said = subprocess.check_output(["rustc", "-vV"], text=True)
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host: "))


def git(*arguments):
    """What git says of the checkout; None where it is none."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None  # There is no git.
    return done.stdout.strip() if done.returncode == 0 else None


def time_of_build():
    """The time that everything in a package has: SOURCE_DATE_EPOCH, or that of the commit."""
    time = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
    if not time:
        sys.exit("this is no checkout of git: say in SOURCE_DATE_EPOCH which time the files get")
    return int(time)


def commit_to_build():
    """The commit of a clean checkout, or what ROADSTEAD_COMMIT names."""
    given = os.environ.get("ROADSTEAD_COMMIT")
    if given:
        return given
    changed = git("status", "--porcelain", "--untracked-files=no")
    if changed is None:
        sys.exit("this is no checkout of git, or not one of this user: name its commit in ROADSTEAD_COMMIT")
    if changed:
        sys.exit(f"not a clean checkout; commit the changes, or name a commit in ROADSTEAD_COMMIT:\n"
                 f"{changed}")
    return git("rev-parse", "HEAD") or ""


def target_folder():
    """Where cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def has_packed_relocations():
    """Whether programs with the C library of this machine start with a packed list of addresses."""
    name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    return name == "glibc" and tuple(int(part) for part in version.split(".")[:2]) >= (2, 36)


def libc_version():
    """The version of the C library of this machine: that of Debian's package where there is one."""
    query = ["dpkg-query", "-W", "-f", "${Version}", "libc6-dev"]
    try:
        return subprocess.check_output(query, text=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return (os.confstr("CS_GNU_LIBC_VERSION") or "unknown").removeprefix("glibc ")


def static_flags():
    """What links a program statically, with what is in static.c."""
    # From the checkout on, where cargo links: flags are a part of the names of symbols, and so of what
    # is made.
    made, compiler = "target/static/static.o", os.environ.get("CC", "cc")
    (ROOT / made).parent.mkdir(parents=True, exist_ok=True)
    version = f'-DGLIBC_VERSION="{libc_version()}"'
    subprocess.run([compiler, "-O2", "-fPIC", version, "-c", "-o", made, "packaging/make/static.c"],
                   cwd=ROOT, check=True)
    flags = ["-Ctarget-feature=+crt-static", f"-Clink-arg={made}"]
    if has_packed_relocations():
        # The addresses to change at the start take 20 KB then, and 1.8 MB otherwise.
        flags.append("-Clink-arg=-Wl,-z,pack-relative-relocs")
    return flags


def run_cargo(command, environment=None):
    """Runs a command of cargo that builds."""
    if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode != 0:
        sys.exit("the program was not built; `cargo fetch --locked` fetches what it is made of")


def relink():
    """Links the program of `cargo build` statically, for tests; returns its file."""
    # For the last step alone, so that nothing is compiled again.
    run_cargo(["cargo", "rustc", "--bin", "roadstead", "--locked", "--offline", "--", *static_flags()])
    folder = target_folder()
    (folder / "static").mkdir(exist_ok=True)
    made = Path(shutil.copy2(folder / "debug/roadstead", folder / "static/roadstead"))
    audit.add(made, host())
    return made


def build():
    """Builds the static program that is given away, without the network; returns its file.

    No path of this machine is in it: those of the checkout, of cargo and of the toolchain are replaced,
    in what rustc compiles and in what the C compiler does."""
    target, folder = host(), target_folder() / "static"
    flags = static_flags()
    sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
    cargo_home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    paths = {str(ROOT): "roadstead", cargo_home: "cargo", sysroot: "rust", str(folder): "target"}
    flags += [f"--remap-path-prefix={path}={name}" for path, name in paths.items()]
    of_c = " ".join(f"-ffile-prefix-map={path}={name}" for path, name in paths.items())
    # AES-GCM for AVX-512 is 0.7 MB; AES-GCM takes a small part of a request either way.
    of_c += " -DMY_ASSEMBLER_IS_TOO_OLD_FOR_512AVX"
    environment = os.environ | {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(flags),
        "CFLAGS": f"{os.environ.get('CFLAGS', '')} {of_c}".strip(),
        "ROADSTEAD_COMMIT": commit_to_build(),
        "SOURCE_DATE_EPOCH": str(time_of_build()),
        "CARGO_INCREMENTAL": "0",
    }
    # With a target, the flags are for the program alone: macros are libraries, and no static ones.
    command = ["cargo", "build", "--bin", "roadstead", "--profile", PROFILE, "--target", target,
               "--target-dir", str(folder), "--locked", "--offline"]
    run_cargo(command, environment)
    # The one that cargo made stays as it made it: the next build may find it up to date.
    made = folder / f"roadstead-{PROFILE}"
    shutil.copy2(folder / target / PROFILE / "roadstead", made)
    audit.add(made, target)
    return made


def machine_of(content, file):
    """The machine of an ELF file of 64 bits, and whether it is static: it names no loader."""
    if content[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"{file}: not a program of Linux with 64 bits")
    machine, = struct.unpack_from("<H", content, 18)
    if machine not in MACHINES:
        sys.exit(f"{file}: a program for a machine that no package is made for: {machine}")
    offset, = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    kinds = [struct.unpack_from("<I", content, offset + n * size)[0] for n in range(count)]
    return MACHINES[machine], PT_INTERP not in kinds


def read(file):
    """Reads a program, and asks it what it is and for its manual pages and completions."""
    try:
        content = file.read_bytes()
    except OSError as error:
        sys.exit(f"{file}: {error.strerror}")
    (rust, debian, image), is_static = machine_of(content, file)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ROADSTEAD_")}

    def said(*arguments):
        try:
            return subprocess.check_output([file.resolve(), *arguments], env=variables)
        except OSError as error:
            sys.exit(f"{file}: it does not run on this machine, which must be one that it is for: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"{file}: no program of Roadstead that can be packaged: {error}")

    try:
        facts = json.loads(said("version", "--json"))
    except json.JSONDecodeError:
        sys.exit(f"{file}: no program of Roadstead: it does not say its version")
    with tempfile.TemporaryDirectory() as folder:
        said("man", folder)
        manuals = {page.name: page.read_bytes() for page in Path(folder).iterdir()}
    completions = {shell: said("completions", shell) for shell in ("bash", "zsh", "fish")}
    return Program(content, facts["version"], facts["commit"], rust, debian, image, is_static, manuals,
                   completions)
