#!/bin/sh
# Builds the site into build/docs/html from docs/, the headers, the Python package and the command's own tables. Needs no network.
set -eu
cd "$(dirname "$0")/.."

if ! command -v sphinx-build doxygen >/dev/null; then
    echo "skipped: Sphinx or Doxygen is not installed (scripts/setup.sh docs)"
    exit 77
fi
circe=build/circe
pages=build/docs/pages
rm -rf build/docs
mkdir -p "$pages/project" build/docs/doxygen
cp -r docs/. "$pages"
cp CHANGELOG.md "$pages/project/changelog.md"
cp CONTRIBUTING.md "$pages/project/contributing.md"
cp SECURITY.md "$pages/project/security.md"
mkdir -p "$pages/reference/commands"
"$circe" generate-reference "$pages/reference/commands"
# A page in docs/ may point to a file of the sources, which the site does not contain.
python3 scripts/docs_links.py "$pages"
doxygen docs/Doxyfile

export CIRCE_DOXYGEN="$PWD/build/docs/doxygen/xml" CIRCE_PYTHON="$PWD/python" CIRCE_LIBRARY="$PWD/build/libcirce.so"
CIRCE_VERSION=$("$circe" --version | sed -n '1s/^circe \([0-9.]*\).*/\1/p')
export CIRCE_VERSION
sphinx-build -q -W --keep-going -b html "$pages" build/docs/html
echo "The site is in build/docs/html/index.html."
