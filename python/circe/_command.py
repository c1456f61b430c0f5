"""The command circe that came with the package, and running it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
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


def run(arguments: List[str], folder: str = "") -> dict:
    """What `circe ... --json` says. What it refuses becomes a CommandError with its text, without the name of the temporary
    folder that the files lie in."""
    try:
        done = subprocess.run([command_path(), *arguments, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", check=False)
    except OSError as error:
        raise errors.CommandError(f"the command circe could not be started: {error}") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit status {done.returncode}, without a word"
        raise errors.CommandError(said.replace(os.path.join(folder, ""), "") if folder else said)
    return json.loads(done.stdout)


def main(arguments: List[str]) -> int:
    """Becomes the command."""
    try:
        path = command_path()
    except errors.CommandError as error:
        print(f"circe: {error}")
        return 1
    os.execv(path, ["circe", *arguments])
