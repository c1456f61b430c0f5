"""The command circe that came with the package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import List

from . import errors


def command_path() -> str:
    """CIRCE_COMMAND, what the wheel brought, or what PATH offers."""
    named = os.environ.get("CIRCE_COMMAND")
    if named:
        return named
    bundled = Path(__file__).parent / "_bundle" / "bin" / "circe"
    found = str(bundled) if bundled.exists() else shutil.which("circe")
    if found is None:
        raise errors.CommandError("the command circe was not found: this installation brought none, and PATH has none")
    return found


def main(arguments: List[str]) -> int:
    """Becomes the command."""
    try:
        path = command_path()
    except errors.CommandError as error:
        print(f"circe: {error}")
        return 1
    os.execv(path, ["circe", *arguments])
