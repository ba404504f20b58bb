"""Documents that come with the program. Links between them work, so they keep their paths."""

import posixpath
import re
import sys

from .archive import Entry
from .crates import ROOT
from .program import git

NAMES = ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "packaging/README.md"]
UNITS = ["roadstead.service", "roadstead-backup.service", "roadstead-backup.timer"]
# Configurations of programs beside the server.
SAMPLES = ["nginx.conf", "Caddyfile", "haproxy.cfg", "fail2ban/filter.conf", "fail2ban/jail.conf", "monitoring/prometheus.yml",
           "monitoring/alerts.yml", "monitoring/alerts_test.yml",
           "monitoring/dashboard.json"]


# What a document refers to: a link's or a picture's path, without the place in it.
LINK = re.compile(r'\]\(([^)#\s]+)[^)]*\)|(?:src|srcset)="([^"]+)"')


def committed(folder):
    """The files of a folder, without those that somebody keeps there beside what is committed."""
    listed = git("ls-files", folder)
    if listed is not None:
        return listed.splitlines()
    found = (ROOT / folder).rglob("*")
    return sorted(str(path.relative_to(ROOT)) for path in found if path.is_file())


def linked(path, text):
    """The files to which a document refers."""
    for match in LINK.finditer(text):
        target = match[1] or match[2]
        if "://" not in target and not target.startswith("mailto:"):
            yield posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def documents():
    """The documents and samples, and the pictures and programs to which they refer."""
    docs = committed("docs")
    paths = {*NAMES, *(f"packaging/{name}" for name in [*SAMPLES, *UNITS]),
             *(path for path in docs if path.endswith(".md"))}
    used = {target: path for path in sorted(paths) if path.endswith(".md")
            for target in linked(path, (ROOT / path).read_text(encoding="utf-8"))}
    paths |= used.keys() & set(docs)
    for target, path in used.items():
        if target not in paths and not any(one.startswith(f"{target}/") for one in paths):
            sys.exit(f"{path} refers to {target}, which is not packaged")
    return [Entry(path, (ROOT / path).read_bytes()) for path in sorted(paths)]
