"""The list of what the program is made of, in CycloneDX 1.5."""

import json
import re
import uuid
from datetime import UTC, datetime
from urllib.parse import quote

from . import crates
from .archive import sha256


def expression(license_name):
    """A license as SPDX writes it; older packages have a slash for OR."""
    return re.sub(r"\s*/\s*", " OR ", license_name)


def reference_of(package):
    """A package of Rust as a package URL."""
    return f"pkg:cargo/{package['name']}@{quote(package['version'], safe='')}"


def component(package, checksums):
    """A package of Rust."""
    name, version = package["name"], package["version"]
    purl = reference_of(package)
    made = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "hashes": [{"alg": "SHA-256", "content": checksums[name, version]}]}
    if package["license"]:
        made["licenses"] = [{"expression": expression(package["license"])}]
    return made


def others(program):
    """What is in the program and no package of Rust, with the versions that its compilers noted in it."""
    kinds = {crates.RUST: (b"rustc version ", "rust-lang:rust"), crates.LIBC: (b"glibc version ", "gnu:glibc")}
    for name, license_name, _ in crates.OTHERS:
        start, vendor = kinds[name]
        found = re.search(re.escape(start) + rb"([\w.+~-]+)", program.content)
        if name == crates.LIBC and not program.is_static:
            continue
        made = {"type": "library", "name": name, "licenses": [{"expression": license_name}]}
        if found:
            made["version"] = found[1].decode()
            # As lists of vulnerabilities name it: without what a distribution adds.
            made["cpe"] = f"cpe:2.3:a:{vendor}:{made['version'].partition('-')[0]}:*:*:*:*:*:*:*"
        yield made


def needed(packages, own, target):
    """What each package of the program needs of the others, by their references."""
    resolve = crates.metadata([target])["resolve"]
    known = {package["id"]: reference_of(package) for package in packages} | {resolve["root"]: own}
    lists = []
    for node in resolve["nodes"]:
        reference = known.get(node["id"])
        if reference is None:
            continue  # Of tests or build scripts.
        used = {known[one["pkg"]] for one in node["deps"] if one["pkg"] in known
                and any(kind["kind"] is None for kind in one["dep_kinds"])}
        lists.append({"ref": reference, "dependsOn": sorted(used)})
    return sorted(lists, key=lambda one: one["ref"])


def sbom(program, time):
    """The list as a file."""
    target = f"{program.rust}-unknown-linux-gnu"
    packages = sorted(crates.in_program([target]), key=lambda one: (one["name"], one["version"]))
    own = f"pkg:generic/roadstead@{program.version}"
    digest = sha256(program.content)
    checksums = crates.checksums()
    listed = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application", "bom-ref": own, "name": "roadstead",
                "version": program.version, "purl": own,
                "licenses": [{"expression": "Apache-2.0"}],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
        },
        "components": [component(package, checksums) for package in packages]
                      + list(others(program)),
        "dependencies": needed(packages, own, target),
    }
    return (json.dumps(listed, indent=1) + "\n").encode()
