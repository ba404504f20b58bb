"""The list of packages inside of the program, where scanners look for it: in the section that `cargo
auditable` writes, as JSON that zlib has compressed."""

import json
import os
import subprocess
import tempfile
import zlib
from pathlib import Path

from . import crates

SECTION = ".dep-v0"


def listed(target):
    """The packages that are in the program, each with the places in the list of those it needs."""
    found = crates.metadata([target])
    resolve, root = found["resolve"], found["resolve"]["root"]
    packages = crates.in_program([target])
    packages += [package for package in found["packages"] if package["id"] == root]
    packages.sort(key=lambda one: (one["name"], one["version"]))
    places = {package["id"]: nth for nth, package in enumerate(packages)}
    needs = {
        node["id"]: sorted(places[one["pkg"]] for one in node["deps"] if one["pkg"] in places
                           and any(kind["kind"] is None for kind in one["dep_kinds"]))
        for node in resolve["nodes"] if node["id"] in places
    }

    def entry(package):
        made = {"name": package["name"], "version": package["version"],
                "source": "local" if package["source"] is None else "crates.io"}
        if needs[package["id"]]:
            made["dependencies"] = needs[package["id"]]
        if package["id"] == root:
            made["root"] = True
        return made

    return {"packages": [entry(package) for package in packages]}


def add(file, target):
    """Adds the list to a program, in place of one that it has."""
    objcopy = os.environ.get("OBJCOPY", "objcopy")
    content = json.dumps(listed(target), separators=(",", ":")).encode()
    with tempfile.TemporaryDirectory() as folder:
        section = Path(folder, "section")
        section.write_bytes(zlib.compress(content, 9))
        subprocess.run([objcopy, "--remove-section", SECTION, "--add-section", f"{SECTION}={section}",
                        "--set-section-flags", f"{SECTION}=noload,readonly", str(file)], check=True)
