#!/usr/bin/env python3
"""Measures how many of the words of PDF files are found: `benches/pdf.py PROGRAM FOLDER...`

PROGRAM is `target/release/roadstead`. The words are those that both MuPDF (`pip install pymupdf`) and
Poppler (`pdftotext`) find. Good folders are the test files of pdf.js, pdfminer.six and pdfplumber.
Prints the files that lose most, and a line with the sums.
"""

import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pymupdf

CJK = re.compile("([\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af])")
ENOUGH_WORDS = 10


def words(text):
    text = CJK.sub(r" \1 ", unicodedata.normalize("NFKC", text).lower())
    return Counter(re.findall(r"\w+", text))


def of_others(path):
    """The words that both find; None if the file needs a password, or MuPDF refuses it."""
    try:
        with pymupdf.open(path) as document:
            if document.needs_pass:
                return None
            one = words("\f".join(page.get_text() for page in document))
    except RuntimeError:
        return None
    other = subprocess.run(["pdftotext", "-enc", "UTF-8", path, "-"], capture_output=True)
    return one & words(other.stdout.decode(errors="replace"))


def own(program, path):
    """The words that the program finds, and whether it came to an end."""
    with open(path, "rb") as file:
        command = [program, "extract-text", "--format", "PDF"]
        done = subprocess.run(command, stdin=file, capture_output=True)
    tag, rest = done.stdout[:1], done.stdout[1:].decode(errors="replace")
    line = rest if tag == b"T" else ""
    while line:  # What is left out, up to an empty line.
        line, _, rest = rest.partition("\n")
    return words(rest if tag == b"T" else ""), done.returncode == 0


def main(program, *folders):
    pymupdf.TOOLS.mupdf_display_errors(False)
    rows, crashed = [], 0
    for path in sorted(path for folder in folders for path in Path(folder).rglob("*.pdf")):
        expected = of_others(path)
        if expected is None:
            continue
        found, has_ended = own(program, path)
        crashed += not has_ended
        rows.append((expected.total(), (expected & found).total(), path))
    for total, found, path in sorted(rows, key=lambda row: row[1] - row[0])[:20]:
        print(f"{found} of {total}: {path}")
    shares = [found / total for total, found, _ in rows if total >= ENOUGH_WORDS]
    print(f"{len(rows)} files: {sum(row[1] for row in rows) / sum(row[0] for row in rows):.4f} of the "
          f"words; mean of {len(shares)} files with enough {sum(shares) / len(shares):.4f}; "
          f"{sum(share < 0.8 for share in shares)} under 0.8; {crashed} crashed")


main(*sys.argv[1:])
