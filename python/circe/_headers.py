"""The structures and functions of the C library as ctypes has them, from its headers (include/circe), which are read when the
first of them is needed. So a field or a function is declared once, in C.

Understood is what these headers contain: enumerations, `#define NAME 12`, structures without unions and bit fields, and
functions marked CIRCE_API. Pointers are addresses (c_void_p), which may be None; only texts that are read alone are c_char_p.
Within a structure, a pointer to numbers or to another structure has its type, and one to a circe_mat takes a view as bytes
(_native.mat).
"""

from __future__ import annotations

import ctypes
import functools
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from . import errors

_NUMBERS = {"int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "int32_t": ctypes.c_int32,
            "size_t": ctypes.c_size_t, "double": ctypes.c_double, "float": ctypes.c_float, "char": ctypes.c_char}


def folder() -> Optional[Path]:
    """Of the headers, from the wheel or from the source tree."""
    package = Path(__file__).resolve().parent
    places = package / "_bundle" / "include", package.parents[1] / "include"
    return next((place for place in places if (place / "circe" / "circe.h").exists()), None)


@functools.lru_cache(maxsize=None)
def _text() -> str:
    found = folder()
    if found is None:
        raise errors.VersionError("the headers of libcirce are not beside this package. Install it (pip install . in its sources)")
    whole = "\n".join(header.read_text(encoding="utf-8") for header in sorted((found / "circe").glob("*.h")))
    return re.sub(r"/\*.*?\*/", " ", whole, flags=re.S)


@functools.lru_cache(maxsize=None)
def constants() -> Dict[str, int]:
    """The members of enumerations that are given as numbers, and such macros."""
    return {name: int(number) for name, number in re.findall(r"\b(CIRCE_\w+) (?:= )?(\d+)\s*[,}\n]", _text())}


@functools.lru_cache(maxsize=None)
def _bodies() -> Dict[str, str]:
    """Of the structures that a header shows; those of options come from tables (_options.py)."""
    found = re.findall(r"typedef struct (circe_\w+) \{(.*?)\} \1;", _text(), flags=re.S)
    return {name: body for name, body in found if "#include" not in body}


def _of_type(name: str, stars: int) -> Any:
    """A member of this type, behind so many stars."""
    if stars == 0:
        return _NUMBERS.get(name) or structure(name) or (ctypes.c_void_p if name.endswith("_fn") else ctypes.c_int)  # an enumeration
    if name in ("char", "circe_mat"):
        return ctypes.c_char_p if stars == 1 else ctypes.POINTER(ctypes.c_char_p)
    known = _NUMBERS.get(name) or structure(name)
    return ctypes.POINTER(known) if known is not None and stars == 1 else ctypes.c_void_p


def _members(declaration: str) -> List[Tuple[str, Any]]:
    """The fields of "const char *a, *b" or "double c[2][3]"."""
    function = re.match(r"[^()]*\(\*(\w+)\)\(", declaration)
    if function is not None:
        return [(function.group(1), ctypes.c_void_p)]
    name, *declared = re.sub(r"\b(const|struct)\b", "", declaration).replace("*", " * ").split(None, 1)
    fields = []
    for one in declared[0].split(","):
        field = re.search(r"(\w+)\s*((?:\[\w+\])*)\s*$", one)
        assert field is not None, declaration
        kind = _of_type(name, one.count("*"))
        for size in reversed(re.findall(r"\[(\w+)\]", field.group(2))):
            kind = kind * (int(size) if size.isdigit() else constants()[size])
        fields.append((field.group(1), kind))
    return fields


_structures: Dict[str, Any] = {}


def structure(name: str) -> Any:
    """circe_NAME as a ctypes.Structure, the same one for all threads; None: no header shows it."""
    if name not in _bodies() or name in _structures:
        return _structures.get(name)
    declarations = filter(str.strip, _bodies()[name].split(";"))
    made = type(name, (ctypes.Structure,), {"_fields_": [field for one in declarations for field in _members(one)]})
    return _structures.setdefault(name, made)


def _passed(declaration: str) -> Any:
    """An argument or a result: "const circe_mat *x", "int64_t n", "circe_status"."""
    words = declaration.replace("*", " * ").split()
    name = next(word for word in words if word not in ("const", "struct", "extern"))
    if "*" not in words:
        return None if name == "void" else _of_type(name, 0)
    if name == "char" and words[0] == "const" and words.count("*") == 1:
        return ctypes.c_char_p
    return ctypes.POINTER(ctypes.c_void_p) if words.count("*") == 2 and name not in ("char", "double") else ctypes.c_void_p


@functools.lru_cache(maxsize=None)
def functions() -> Dict[str, Tuple[Any, ...]]:
    """The result and the arguments of every function."""
    found = re.findall(r"CIRCE_API ([^;(]*?)\b(circe_\w+)\(([^;]*?)\)\s*(?:CIRCE_PRINTF\([^)]*\))?;", _text())
    return {name: tuple(map(_passed, [result, *([] if arguments.strip() == "void" else arguments.split(","))]))
            for result, name, arguments in found}
