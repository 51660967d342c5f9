#!/usr/bin/env python3
"""Links of pages lead somewhere, and paths that texts name exist.

Looked at: relative links of *.md files, with their #anchors, and every path like
core/graph/graph.h in a page or in a comment of the code.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(
    r"(?<![\w./<>{*-])"
    r"(?:benchmarks|compiler|core|devices|docs|examples|models|plugins|runtime|tests"
    r"|third_party|tools|transport)"
    r"/[\w./-]*\w\.(?:cc|h|hpp|inc|md|proto|txtpb|graph|sh|py|bzl|lds)\b")
COMMENT = re.compile(r"//.*|/\*.*?\*/|^\s*#.*|^\s*\*.*", re.S)


def listed(*patterns):
    """The files of the tree that match, as files.sh lists them."""
    out = subprocess.check_output([HERE + "/files.sh"] + list(patterns))
    return out.decode().splitlines()


def anchors(path):
    """The anchors that the headings of a page get."""
    found = set()
    with open(path, encoding="utf-8") as page:
        for line in page:
            match = re.match(r"#+\s+(.*)", line)
            if match:
                words = re.sub(r"[^\w\s-]", "", match.group(1).lower())
                found.add(re.sub(r"\s", "-", words.strip()))
    return found


def link_complaints(path, text):
    for link in LINK.findall(text):
        if re.match(r"(https?|mailto):", link):
            continue
        target, _, anchor = link.partition("#")
        target = os.path.normpath(
            os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(target):
            yield "%s: no %s" % (path, link)
        elif anchor and target.endswith(".md") and anchor not in anchors(target):
            yield "%s: no heading for %s" % (path, link)


def path_complaints(path, lines):
    for number, line in enumerate(lines, 1):
        if not path.endswith(".md"):
            if "#include" in line:
                continue
            line = " ".join(COMMENT.findall(line))
        for name in PATH.findall(line):
            # Generated files are not in the tree.
            if not os.path.exists(name) and not name.endswith(".pb.h"):
                yield "%s:%d: no %s" % (path, number, name)


def main():
    complaints = []
    for path in listed("*.md", "*.cc", "*.h", "*.hpp", "*.inc", "*.proto", "*.bzl",
                       "*BUILD.bazel", "*.sh"):
        if path.startswith("tools/checks/"):
            continue  # their test names paths that do not exist
        with open(path, encoding="utf-8") as source:
            text = source.read()
        if path.endswith(".md"):
            complaints += link_complaints(path, text)
        complaints += path_complaints(path, text.splitlines())
    print("\n".join(complaints), end="\n" if complaints else "")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
