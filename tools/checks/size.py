#!/usr/bin/env python3
"""Size budgets: a file of at most 800 lines, a function of at most 100.

The aims are 400 and 40; only the limits are enforced. size_exceptions.txt beside
this script lists what may be larger: a path, a tab, the reason.

A function is found by its braces: a block whose head has a parameter list and
that stands in no other function. Comments, strings and preprocessor lines are
blanked first.
"""
import os
import re
import subprocess
import sys

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
HERE = os.path.dirname(os.path.abspath(__file__))
SCOPE = re.compile(r"^(inline\s+)?(namespace|class|struct|union|enum|extern)\b")
TOKENS = re.compile(
    r'R"(?P<delimiter>[^()\\ ]*)\(.*?\)(?P=delimiter)"'  # raw string
    r"|//[^\n]*|/\*.*?\*/"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"
    r"|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
    re.S | re.M,
)


def listed(*patterns):
    """The files of the tree that match, as files.sh lists them."""
    out = subprocess.check_output([HERE + "/files.sh"] + list(patterns))
    return out.decode().splitlines()


def blank(text):
    """`text` without comments, strings and directives; lines stay where they are."""
    return TOKENS.sub(lambda m: "\n" * m.group().count("\n"), text)


def is_scope(head):
    """Whether a block with this head holds declarations, not statements."""
    head = re.sub(r"^(template\s*<[^{]*>|public:|private:|protected:|\s)+", "", head)
    return bool(SCOPE.match(head)) and not re.search(r"\)\s*(const)?\s*$", head)


def functions(text):
    """Yields (first line, last line, head) of every function body in `text`."""
    stack = []  # of (kind, line, head); "function" opens at most once
    head, head_line, line = "", 1, 1
    for char in blank(text):
        if char == "{":
            inside = any(kind != "scope" for kind, _, _ in stack)
            if inside:
                kind = "block"
            elif is_scope(head):
                kind = "scope"
            elif "(" in head and not re.search(r"=\s*$", head):
                kind = "function"
            else:
                kind = "block"
            stack.append((kind, head_line, head))
            # What an initialiser list or a default argument opens ends a head only
            # where a statement would.
            head = ""
        elif char == "}":
            if stack:
                kind, first, name = stack.pop()
                if kind == "function":
                    yield first, line, " ".join(name.split())
            head = ""
        elif char == ";":
            head = ""
        else:
            if not head.strip():
                head, head_line = "", line
            head += char
        if char == "\n":
            line += 1


def main():
    allowed = set()
    with open(HERE + "/size_exceptions.txt") as exceptions:
        for row in exceptions:
            if not row.startswith("#"):
                allowed.add(row.split("\t")[0].strip())
    complaints = []
    for path in listed("*.cc", "*.h", "*.hpp", "*.proto", "*.sh", "*.py", "*.bzl"):
        if path in allowed:
            continue
        with open(path, encoding="utf-8") as source:
            text = source.read()
        lines = text.count("\n")
        if lines > MAX_FILE_LINES:
            complaints.append(
                "%s has %d lines, at most %d" % (path, lines, MAX_FILE_LINES))
        if not path.endswith((".cc", ".h", ".hpp")):
            continue
        for first, last, name in functions(text):
            if last - first + 1 > MAX_FUNCTION_LINES:
                complaints.append("%s:%d: a function of %d lines, at most %d: %s" % (
                    path, first, last - first + 1, MAX_FUNCTION_LINES, name[:60]))
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
