#!/usr/bin/env python3
"""Measures how many of the words of PDF files are found: `benches/pdf.py PROGRAM FOLDER...`

PROGRAM is `target/release/roadstead`. The words are those that two find of MuPDF, pdfium (`pip install
pymupdf pypdfium2`) and Poppler (`pdftotext`), as often as two of them do. Good folders are the test files
of pdf.js, pdfminer.six, pdfplumber and veraPDF. Prints the files that lose most, and a line with the sums.
"""

import re
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import pymupdf
import pypdfium2

CJK = re.compile("([\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\uac00-\ud7af])")
ENOUGH_WORDS = 10
AS_SERVER = {"MIMALLOC_ARENA_EAGER_COMMIT": "0"}  # Else its memory does not suffice for a thread.


def words(text):
    text = CJK.sub(r" \1 ", unicodedata.normalize("NFKC", text).lower())
    return Counter(re.findall(r"\w+", text))


def of_pdfium(path):
    try:
        with pypdfium2.PdfDocument(path) as document:
            pages = (document[number].get_textpage() for number in range(len(document)))
            return words("\f".join(page.get_text_bounded() for page in pages))
    except pypdfium2.PdfiumError:
        return Counter()


def of_others(path):
    """The words that two of them find; None if the file needs a password, or MuPDF refuses it."""
    try:
        with pymupdf.open(path) as document:
            if document.needs_pass:
                return None
            one = words("\f".join(page.get_text() for page in document))
    except RuntimeError:
        return None
    done = subprocess.run(["pdftotext", "-enc", "UTF-8", path, "-"], capture_output=True)
    other, third = words(done.stdout.decode(errors="replace")), of_pdfium(path)
    return (one & other) | (one & third) | (other & third)


def own(program, path):
    """The words that the program finds, and whether it came to an end."""
    with open(path, "rb") as file:
        command = [program, "extract-text", "--format", "PDF"]
        done = subprocess.run(command, stdin=file, capture_output=True, env=AS_SERVER)
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
