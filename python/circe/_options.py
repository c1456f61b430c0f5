"""The options of jobs, from the library's own tables: their names, their types, and how to set them.

A job's options are rows (include/circe/options.h), read when the job is first used. Signatures, documentation and
errors are made from them, so that a new row needs no line here. Names have underscores where the command line has
dashes.
"""

from __future__ import annotations

import ctypes
import inspect
import keyword
import os
import re
import textwrap
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np

from . import _native, errors

_KINDS = ("flag", "text", "list", "path", "choice", "integer", "count", "number", "positive", "positives", "bytes")
_TYPES = {"flag": "bool", "text": "str", "list": "str or list of str", "path": "path", "integer": "int", "count": "int",
          "number": "float", "positive": "float", "positives": "float or list of float", "bytes": "int or str"}
_VALUE = re.compile(r"--([a-z][a-z0-9-]*)(?:[ =](?:'([^']*)'|([^\s;,:()]*[^\s;,:.()])))?")


@dataclass(frozen=True)
class Row:
    """One option. `fallback` is what it is where it is not given, as the command line writes it; None: nothing."""

    name: str  # in Python's spelling
    option: str  # in the command line's
    kind: str
    required: bool
    letter: str
    value: str
    words: Tuple[str, ...]
    fallback: Optional[str]
    group: str
    help: str

    @property
    def type(self) -> str:
        """What may be given, in words."""
        words = [repr(word) for word in self.words]
        if self.kind == "choice":
            return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
        return " or ".join([_TYPES[self.kind], *words])

    @property
    def default(self) -> Any:
        """As Python would write it."""
        if self.kind == "flag":
            return False
        if self.fallback is None or self.kind == "count":
            return None
        try:
            if self.kind == "integer":
                return int(self.fallback)
            if self.kind in ("number", "positive"):
                return float(self.fallback)
            if self.kind == "positives":
                return tuple(float(part) for part in self.fallback.split(","))
        except ValueError:  # its word
            pass
        return self.fallback


class Schema:
    """The rows of a job's options."""

    def __init__(self, job: str):
        self.pointer = _native.jobs().circe_schema_of(job.encode())
        if not self.pointer:
            raise errors.UnsupportedError(f"the library has no job {job!r}")
        found = _native.Schema.from_address(self.pointer)
        self.job, self.bytes = job, found.bytes
        self.rows = [_row(found.rows[i]) for i in range(found.n)]
        self.by_name = {row.name: row for row in self.rows}
        self._by_option = {row.option: row for row in self.rows}
        self._by_letter = {row.letter: row for row in self.rows if row.letter}

    def signature(self, leading: Sequence[inspect.Parameter], left_out: Sequence[str],
                  returns: Any) -> inspect.Signature:
        """The leading parameters, then every option by keyword."""
        options = [inspect.Parameter(row.name, inspect.Parameter.KEYWORD_ONLY, default=row.default) for row in self.rows
                   if row.name not in left_out]
        own = [p for p in leading if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        last = [p for p in leading if p.kind is inspect.Parameter.KEYWORD_ONLY]
        return inspect.Signature([*own, *options, *last], return_annotation=returns)

    def documentation(self, left_out: Sequence[str]) -> str:
        """Every option with what it takes and its sentences, group by group."""
        lines: List[str] = []
        group = None
        for row in (row for row in self.rows if row.name not in left_out):
            if row.group != group:
                group = row.group
                lines += ["", group, "-" * len(group)]
            default = "" if row.default is None or row.kind == "flag" else f", default {row.default!r}"
            lines.append(f"{row.name} : {row.type}{default}")
            sentences = re.sub(r"(?<!\S)--([a-z]\S*)", lambda other: other.group(1).replace("-", "_"), self.spelled(row.help))
            lines += textwrap.wrap(sentences, 120, initial_indent="    ", subsequent_indent="    ")
        return "\n".join(lines[1:])

    def spelled(self, text: str) -> str:
        """A text of the library with options as Python writes them: --missing drop is missing='drop'."""
        text = re.sub(r"(?<!\S)-([a-z]) ([A-Z]\w*)", self._lettered, text)
        return _VALUE.sub(self._replace, text)

    def _lettered(self, match) -> str:
        row = self._by_letter.get(match.group(1))
        return row.name if row is not None and row.value == match.group(2) else match.group(0)

    def _replace(self, match) -> str:
        option, quoted, word = match.groups()
        row = self._by_option.get(option)
        if row is None:
            return match.group(0)
        if quoted is not None:
            return f"{row.name}={quoted!r}"
        if word is None:
            return row.name
        if row.kind == "choice" and word in row.words:
            return f"{row.name}={word!r}"
        if word in row.value.split() and word.isupper():
            return row.name
        if _is_number(word):
            return f"{row.name}={word}"
        rest = match.group(0)[len(option) + 3:]
        return f"{row.name} {rest}"

    def fail(self, status: int) -> errors.CirceError:
        """The exception of a status, with this thread's text."""
        text = _native.library().circe_last_error().decode(errors="replace").partition("\nusage: circe ")[0]  # of the command
        return errors.BY_STATUS.get(status, errors.CirceError)(self.spelled(text))


def _row(found: _native.Option) -> Row:
    def text(value) -> str:
        return value.decode() if value else ""

    name = text(found.name)
    python = name.replace("-", "_")
    return Row(python + "_" if keyword.iskeyword(python) else python, name, _KINDS[found.kind], bool(found.required),
               text(found.letter.strip(b"\0")), text(found.value), tuple(w for w in text(found.words).split("|") if w),
               found.fallback.decode() if found.fallback is not None else None, text(found.group), text(found.help))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[Any]) -> str:
    """A list as the command line writes it: a,b,"c,d"."""
    texts = [str(name) for name in names]
    return ",".join('"' + text.replace('"', '""') + '"' if any(c in text for c in ',"') else text for text in texts)


def _number(value) -> str:
    return repr(float(value)) if isinstance(value, (float, np.floating)) else str(value)


def text_of(row: Row, value) -> str:
    """A value as the command line has it."""
    refusal = errors.DTypeError(f"{row.name} is {value!r}; it must be {row.type}")
    if row.kind == "flag":
        if not isinstance(value, (bool, np.bool_)):
            raise refusal
        return "true" if value else "false"
    if isinstance(value, (bool, np.bool_)):
        raise refusal
    if row.kind == "path":
        try:
            return os.fspath(value)
        except TypeError:
            raise refusal from None
    if isinstance(value, str):
        return value
    if row.kind in ("list", "positives") and np.ndim(value) == 1 and not isinstance(value, dict):
        return listed(value) if row.kind == "list" else ",".join(_number(v) for v in value)
    if np.ndim(value) != 0 or isinstance(value, (dict, set)) or (row.kind == "choice" and str(value) not in row.words):
        raise refusal
    return _number(value)


class Options:
    """The C structure of a job's options, with the texts that it points to."""

    def __init__(self, schema: Schema, given: Dict[str, Any]):
        self.schema = schema
        self.buffer = ctypes.create_string_buffer(schema.bytes)
        self._texts: List[bytes] = []
        self.pointer = ctypes.addressof(self.buffer)
        _native.jobs().circe_options_init(schema.pointer, self.pointer)
        for name, value in given.items():
            if value is not None:
                self.set(name, value)

    def set(self, name: str, value) -> None:
        row = self.schema.by_name.get(name)
        if row is None:
            raise _unknown(self.schema, name)
        text = text_of(row, value).encode("utf-8", "surrogateescape")
        if b"\0" in text:
            raise errors.ArgumentError(f"{name} is {value!r}; it must not contain a null character")
        self._texts.append(text)
        status = _native.jobs().circe_options_set(self.schema.pointer, self.pointer, row.option.encode(), text)
        if status:
            raise self.schema.fail(status)


def _unknown(schema: Schema, name: str) -> TypeError:
    nearest = _native.jobs().circe_schema_nearest(schema.pointer, name.replace("_", "-").encode())
    hint = f"; did you mean {schema.spelled('--' + nearest.decode())!r}?" if nearest else ""
    return TypeError(f"{schema.job}() has no option {name!r}{hint}")
