"""Archives that are the same bytes for the same content: sorted, with one time."""

import gzip
import hashlib
import io
import lzma
import tarfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file or, without content, a directory. `owner` is the number of user and group."""
    path: str
    content: bytes | None = None
    mode: int = 0o644
    owner: int = 0


def directory(path, mode=0o755, owner=0):
    return Entry(path, None, mode, owner)


def with_parents(entries):
    """The entries with the directories above them, in the order of their paths."""
    by_path = {entry.path: entry for entry in entries}
    for path in list(by_path):
        while "/" in path:
            path = path.rsplit("/", 1)[0]
            by_path.setdefault(path, directory(path))
    return [by_path[path] for path in sorted(by_path)]


def tar(entries, time, prefix=""):
    """A tar archive of the entries and what is above them, each path after the prefix."""
    made = io.BytesIO()
    # GNU is the form that dpkg and every reader of images knows.
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in with_parents(entries):
            info = tarfile.TarInfo(prefix + entry.path)
            info.mtime, info.mode = time, entry.mode
            info.uid = info.gid = entry.owner
            info.uname = info.gname = "root" if entry.owner == 0 else ""
            if entry.content is None:
                info.type = tarfile.DIRTYPE
                archive.addfile(info)
            else:
                info.size = len(entry.content)
                archive.addfile(info, io.BytesIO(entry.content))
    return made.getvalue()


# How hard it is tried to make what holds the program small: of gzip and of xz.
USUAL = {"gzip": 9, "xz": 6}
effort = dict(USUAL)


def is_fast():
    """Whether little is compressed, to try things."""
    return effort != USUAL


def gz(content, level=9):
    """The content compressed, without a time or a name."""
    return gzip.compress(content, compresslevel=level, mtime=0)


def large_gz(content):
    return gz(content, effort["gzip"])


def large_xz(content):
    return lzma.compress(content, preset=effort["xz"])


def ar(members, time):
    """An archive of ar, which a Debian package is: name and content of each member."""
    parts = [b"!<arch>\n"]
    for name, content in members:
        head = f"{name:<16}{time:<12}{0:<6}{0:<6}{0o100644:<8o}{len(content):<10}`\n"
        parts += [head.encode(), content, b"\n" * (len(content) % 2)]
    return b"".join(parts)


def sha256(content):
    return hashlib.sha256(content).hexdigest()
