"""Documents that come with the program. Links between them work, so they keep their paths."""

from .archive import Entry
from .crates import ROOT

NAMES = ["README.md", "CHANGELOG.md", "SECURITY.md", "packaging/README.md"]
# Configurations of programs beside the server.
SAMPLES = ["nginx.conf", "Caddyfile", "fail2ban/filter.conf", "fail2ban/jail.conf"]


def documents():
    """The documents and samples."""
    reference = sorted((ROOT / "docs").rglob("*.md"))
    paths = [*NAMES, *(f"packaging/{name}" for name in SAMPLES),
             *(str(path.relative_to(ROOT)) for path in reference)]
    return [Entry(path, (ROOT / path).read_bytes()) for path in paths]
