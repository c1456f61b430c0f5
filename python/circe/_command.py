"""The command circe that came with the package."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import List, Optional

from . import errors


def command_path() -> str:
    """CIRCE_COMMAND, what the wheel brought, or what PATH offers."""
    named = os.environ.get("CIRCE_COMMAND")
    if named:
        return named
    bundled = Path(__file__).parent / "_bundle" / "bin" / "circe"
    found = str(bundled) if bundled.exists() else shutil.which("circe")
    if found is None or os.path.realpath(found) == os.path.realpath(sys.argv[0]):  # the package's own script
        raise errors.CommandError("the command circe was not found: it is neither in this installation nor on PATH")
    return found


def main(arguments: Optional[List[str]] = None) -> int:
    """Becomes the command, with this program's arguments."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        path = command_path()
    except errors.CommandError as error:
        print(f"circe: {error}")
        return 1
    os.execv(path, ["circe", *arguments])
