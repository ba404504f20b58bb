"""The Debian package, written without Debian's tools."""

import hashlib
import os
from email.utils import formatdate

from .archive import Entry, ar, directory, gz, large_xz, tar
from .crates import ROOT
from .documents import documents

PACKAGING = ROOT / "packaging"
CONFFILES = ["/etc/roadstead.env"]
SCRIPTS = ["postinst", "prerm", "postrm"]

# What the units of the package have in place of what is in packaging/: each must be there, once.
OF_PACKAGE = {
    "roadstead.service": [
        ("/usr/local/bin/", "/usr/bin/"),
        ("# A dynamic user, with /var/lib/roadstead for it alone.\nDynamicUser=yes\n",
         "# Has /var/lib/roadstead for itself alone.\nUser=roadstead\n"),
        ("EnvironmentFile=-/etc/roadstead.env\n",
         "EnvironmentFile=-/etc/roadstead.env\n"
         "# Enabled by its installation, it starts once that file sets something.\n"
         "ExecCondition=/bin/sh -c 'env | grep -q ^ROADSTEAD_ || { echo \"not started before it is"
         " configured: set ROADSTEAD_LISTEN, at least, in /etc/roadstead.env\"; exit 1; }'\n"),
    ],
    "roadstead-backup.service": [
        ("/usr/local/bin/", "/usr/bin/"),
        ("/var/lib/private/roadstead", "/var/lib/roadstead"),
        ("the dynamic user", "the server's user"),
    ],
    "roadstead-backup.timer": [],
}

DESCRIPTION = """\
server in which a small team keeps its AI agents
 Roadstead keeps the prompts that agents work by, what runs where and who
 approved it, and the teams in which agents and people share tasks, mail and
 memories. It is one program and one directory of data.
 .
 The service is enabled, and starts once /etc/roadstead.env sets something.
"""


def read(path):
    return (PACKAGING / path).read_bytes()


def unit(name):
    """A unit as the package has it."""
    text = read(name).decode()
    for old, new in OF_PACKAGE[name]:
        if text.count(old) != 1:
            raise SystemExit(f"packaging/{name} has not {old!r} once, which the package replaces")
        text = text.replace(old, new)
    return text.encode()


def debian_version(version):
    """A version of Cargo as Debian sorts it: what comes before a release comes before it."""
    return version.replace("-", "~")


def maintainer():
    """Who answers for the package: whoever makes it, by the variables of Debian's own tools."""
    name = os.environ.get("DEBFULLNAME", "The makers of this package")
    return f"{name} <{os.environ.get('DEBEMAIL', 'nobody@roadstead.invalid')}>"


def changelog(version, time):
    return gz((f"roadstead ({version}) stable; urgency=medium\n\n"
               "  * What has changed is in CHANGELOG.md.\n\n"
               f" -- {maintainer()}  {formatdate(time)}\n").encode())


def content(program, version, time):
    """The files of the package."""
    doc, share = "usr/share/doc/roadstead", "usr/share"
    files = {
        f"{doc}/copyright": read("debian/copyright"),
        f"{doc}/changelog.gz": changelog(version, time),
        f"{doc}/NOTICES.txt.gz": gz(read("NOTICES.txt")),
        f"{share}/lintian/overrides/roadstead": read("debian/lintian-overrides"),
        f"{share}/bash-completion/completions/roadstead": program.completions["bash"],
        f"{share}/zsh/vendor-completions/_roadstead": program.completions["zsh"],
        f"{share}/fish/vendor_completions.d/roadstead.fish": program.completions["fish"],
        "usr/lib/sysusers.d/roadstead.conf": read("debian/sysusers.conf"),
    }
    files |= {f"{doc}/{one.path}": one.content for one in documents()}
    files |= {f"{share}/man/man1/{name}.gz": gz(page) for name, page in program.manuals.items()}
    files |= {f"usr/lib/systemd/system/{name}": unit(name) for name in OF_PACKAGE}
    return [Entry(path, content) for path, content in files.items()] + [
        Entry("usr/bin/roadstead", program.content, 0o755),
        # It may get a password of a mail server.
        Entry("etc/roadstead.env", read("roadstead.env"), 0o600),
    ]


def control(program, version, files):
    """The description of the package."""
    needs = ["systemd (>= 247) | systemd-standalone-sysusers | systemd-sysusers"]
    if not program.is_static:
        needs += ["libc6", "libgcc-s1"]
    size = sum(-(-len(file.content) // 1024) for file in files)
    return (f"Package: roadstead\nVersion: {version}\nArchitecture: {program.debian}\n"
            f"Maintainer: {maintainer()}\nInstalled-Size: {size}\nDepends: {', '.join(needs)}\n"
            f"Section: net\nPriority: optional\nDescription: {DESCRIPTION}").encode()


def package(program, time):
    """The name and the content of the package."""
    version = debian_version(program.version)
    files = content(program, version, time)
    sums = "".join(f"{hashlib.md5(file.content, usedforsecurity=False).hexdigest()}  {file.path}\n"
                   for file in sorted(files, key=lambda file: file.path))
    about = [
        Entry("control", control(program, version, files)),
        Entry("conffiles", "".join(f"{path}\n" for path in CONFFILES).encode()),
        Entry("md5sums", sums.encode()),
        *(Entry(name, read(f"debian/{name}"), 0o755) for name in SCRIPTS),
    ]
    top = directory("")
    made = ar([
        ("debian-binary", b"2.0\n"),
        ("control.tar.gz", gz(tar([top, *about], time, "./"))),
        ("data.tar.xz", large_xz(tar([top, *files], time, "./"))),
    ], time)
    return f"roadstead_{version}_{program.debian}.deb", made
