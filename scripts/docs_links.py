#!/usr/bin/env python3
"""Links of the documentation: each names a file that is there; in the site's copy of docs/, one that leaves docs/ becomes the file's name.

Usage: docs_links.py [PAGES]. PAGES is the copy; without it the links are only checked."""

import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
DOCS = SOURCE / "docs"
INSIDE = {"CHANGELOG.md": "project/changelog.md", "CONTRIBUTING.md": "project/contributing.md", "SECURITY.md": "project/security.md"}
GENERATED = ("reference/commands/", "project/changelog.md", "project/contributing.md", "project/security.md")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def target_of(page, link):
    """The file that a link of a page in the project means, and the rest of the link (#place)."""
    path, _, place = link.partition("#")
    return (page.parent / path).resolve(), f"#{place}" if place else ""


def is_there(target):
    inside = target.is_relative_to(DOCS) and str(target.relative_to(DOCS)).startswith(GENERATED)
    return inside or target.exists()


def broken_links():
    pages = [SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CONVENTIONS.md")] + sorted(DOCS.rglob("*.md"))
    for page in filter(pathlib.Path.exists, pages):
        for match in LINK.finditer(page.read_text()):
            if not is_there(target_of(page, match[3])[0]):
                yield f"{page.relative_to(SOURCE)}: there is no {match[3]}"


def home_of(copy, pages):
    """The page of the project that a page of the copy came from."""
    relative = copy.relative_to(pages)
    for name, inside in INSIDE.items():
        if str(relative) == inside:
            return SOURCE / name
    return DOCS / relative


def within_site(match, copy, pages):
    image, text, link = match.groups()
    target, place = target_of(home_of(copy, pages), link)
    if target.is_relative_to(DOCS):
        goal = pages / target.relative_to(DOCS)
    elif target.is_relative_to(SOURCE) and str(target.relative_to(SOURCE)) in INSIDE:
        goal = pages / INSIDE[str(target.relative_to(SOURCE))]
    else:
        name = str(target.relative_to(SOURCE))
        return f"`{name}`" if text.strip("`") in name else f"{text} (`{name}`)"
    up = "../" * (len(copy.relative_to(pages).parts) - 1)
    return f"{image}[{text}]({up}{goal.relative_to(pages)}{place})"


def main():
    failed = list(broken_links())
    print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
    for pages in map(pathlib.Path, sys.argv[1:]):
        for copy in pages.rglob("*.md"):
            copy.write_text(LINK.sub(lambda match: within_site(match, copy, pages), copy.read_text()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
