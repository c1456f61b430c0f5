"""How results look: one line in a terminal, a table in a notebook, a picture by matplotlib."""

from __future__ import annotations

import html
from typing import Any, Dict, Iterable, List, Sequence, Tuple


class Record:
    """A result with named fields; `_shown` are those that repr() and a notebook show."""

    _shown: Tuple[str, ...] = ()
    _handle: Any = None  # the library's object, of results that are more than their fields

    def _holding(self, handle):
        """This, with the object; not an argument of the class, which users see."""
        object.__setattr__(self, "_handle", handle)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={_short(getattr(self, name))}' for name in self._shown)})"

    def _repr_html_(self) -> str:
        return html_table([{name: getattr(self, name) for name in self._shown}])


def _short(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def html_table(rows: Iterable[Dict[str, Any]]) -> str:
    """One row per dictionary; None is an empty cell."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(row.get(name))}</td>' for name in names)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))


def frame(rows: Sequence[Dict[str, Any]], index: Sequence[str] = ()):
    """A DataFrame, one row per dictionary."""
    import pandas

    made = pandas.DataFrame(list(rows))
    return made.set_index(list(index)) if index and len(made) else made


def panels(n: int, axes) -> List[Any]:
    """Axes of matplotlib: those that were given, or n new ones beside each other."""
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(1, n, figsize=(5 * n, 4), squeeze=False, constrained_layout=True)[1][0]
    return list(axes) if hasattr(axes, "__iter__") else [axes]
