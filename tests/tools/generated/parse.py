"""Parses the sources below folders: each file must be Java or C#."""

import re
import sys
from pathlib import Path

import tree_sitter_c_sharp
import tree_sitter_java
from tree_sitter import Language, Parser

GRAMMARS = {".java": tree_sitter_java, ".cs": tree_sitter_c_sharp}
parsers = {ending: Parser(Language(grammar.language())) for ending, grammar in GRAMMARS.items()}


def first_error(node):
    if node.is_error or node.is_missing:
        return node
    return next(first_error(child) for child in node.children if child.has_error)


parsed = 0
for file in (file for place in sys.argv[1:] for file in sorted(Path(place).rglob("*"))):
    if file.suffix not in parsers:
        continue
    # A variable may be called so, which the grammar does not know.
    source = re.sub(rb"\brequired(?= = new )", b"required_", file.read_bytes())
    root = parsers[file.suffix].parse(source).root_node
    if root.has_error:
        error = first_error(root)
        sys.exit(f"{file}:{error.start_point.row + 1}: {error.text[:100]!r}")
    parsed += 1
print(parsed)
