"""The packages of Rust of which the program is made, from cargo, without the network."""

import json
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

RUST = "The Rust standard library"
LIBC = "The GNU C Library, in a statically linked program"

# What is in the program and is no package: name, license, files of its notices.
OTHERS = [
    (RUST, "MIT OR Apache-2.0", []),
    (LIBC, "LGPL-2.1-or-later", ["packaging/licenses/LGPL-2.1.txt"]),
]


def cargo(*arguments):
    """What a command of cargo prints that uses neither the network nor another Cargo.lock."""
    command = ["cargo", *arguments, "--offline", "--locked"]
    return subprocess.check_output(command, cwd=ROOT, text=True)


def metadata(targets):
    """The packages of these targets, with what each needs of the others."""
    filters = [word for target in targets for word in ("--filter-platform", target)]
    return json.loads(cargo("metadata", "--format-version", "1", *filters))


def in_program(targets):
    """The packages whose code, or whose macros' output, is in the program: not what only tests and
    build scripts use."""
    names = set()
    for target in targets:
        tree = cargo("tree", "--edges", "normal", "--prefix", "none", "--format", "{p}",
                     "--target", target)
        names |= {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    return [package for package in metadata(targets)["packages"] if package["source"] is not None
            and (package["name"], "v" + package["version"]) in names]


def checksums():
    """The checksums of Cargo.lock, by name and version."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
    return {(package["name"], package["version"]): package["checksum"]
            for package in lock["package"] if "checksum" in package}
