"""Audits in this process: does a prediction depend on sensitive attributes? The result as records, DataFrames and pictures."""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from . import _native, errors
from ._jobs import Job, Predictor, Progress, Training, _described, _folder
from ._records import Record, frame, html_table, panels


@dataclass(frozen=True, repr=False, eq=False)
class Finding(Record):
    """Whether one prediction depends on one attribute once the outcome is known, or as another `notion` asks. `decision`,
    `verdict` and `trust` in words; `p_value`, and `p_adjusted` for several attributes (Holm); `tests`, `effects`, `along`,
    `kpc_above_chance` (the effect that verdicts and `kpc` in fail_if use), `measures`, `gaps` between groups and the `groups` themselves, as in the JSON of the command."""

    _shown = ("prediction", "attribute", "decision", "p_adjusted", "trust")

    notion: str
    prediction: str
    attribute: str
    decision: str
    verdict: str
    p_value: float
    p_adjusted: float
    trust: str
    tests: List[dict]
    effects: Optional[dict]
    kpc_above_chance: Optional[Dict[str, float]]
    along: Optional[dict]
    measures: Dict[str, Optional[float]]
    gaps: List[dict]
    groups: Dict[str, Any]


@dataclass(frozen=True, repr=False, eq=False)
class Audit(Record):
    """`findings`: one per prediction and attribute. `quality`: the quality of each prediction. `n` rows, `dropped` of them
    with missing cells. `results`: all of it, as `circe audit --json` writes it. As DataFrames: to_pandas(), `groups`,
    `gaps`, `overall`; as pictures: plot(); as a page: to_html()."""

    _shown = ("findings", "n", "dropped")

    findings: Tuple[Finding, ...]
    quality: Tuple[dict, ...]
    n: int
    dropped: int
    alpha: float
    warnings: Tuple[str, ...]
    seconds: float
    results: Dict[str, Any]

    def report(self, folder) -> None:
        """Writes report.html with figures, their scripts and data, results.json and results.csv into a folder."""
        _native.check(_native.jobs().circe_audit_report(self._handle.pointer, _folder(folder)))

    def to_html(self, path=None) -> Optional[str]:
        """Writes the report as one self-contained file; without a path, returns its text."""
        with tempfile.TemporaryDirectory(prefix="circe-") as folder:
            self.report(folder)
            with open(os.path.join(folder, "report.html"), encoding="utf-8") as file:
                text = file.read()
        if path is None:
            return text
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return None

    def to_pandas(self):
        """A DataFrame, one row per finding."""
        names = ("notion", "prediction", "attribute", "decision", "p_value", "p_adjusted", "trust", "verdict")
        return frame([{**{name: getattr(f, name) for name in names}, **_effect(f)} for f in self.findings])

    @property
    def groups(self):
        """A DataFrame with one row per prediction, attribute and group. Its columns are `rows`, `compared` (large enough to
        count in a gap), and every metric as in fairlearn's MetricFrame.by_group, with the ends of its 95 % interval:
        `true_positive_rate`, `true_positive_rate_lower`, `true_positive_rate_upper`."""
        found = self.findings[:len(self.findings) // max(1, len(self.results["notions"]))]
        return frame([row for finding in found for row in _group_rows(finding)], ["prediction", "attribute", "group"])

    @property
    def gaps(self):
        """A DataFrame with one row per gap between groups. It shows the size of the gap with an interval, the two groups, and
        what chance alone gives."""
        return frame([{"notion": f.notion, "prediction": f.prediction, "attribute": f.attribute, **gap}
                       for f in self.findings for gap in f.gaps])

    @property
    def overall(self):
        """A DataFrame with one row per prediction, its metrics on all rows and their intervals."""
        return frame([{"prediction": one["prediction"], **_with_ends(one)} for one in self.quality], ["prediction"])

    def plot(self, metric: Optional[str] = None, axes=None):
        """Draws a metric of every group with its 95 % interval, using matplotlib: one panel per attribute, one colour per
        prediction. metric: a column of `groups`; without one, the true positive rate, or the mean error of numbers.
        Returns the axes."""
        table = self.groups
        if metric is None:
            metric = "true_positive_rate" if "true_positive_rate" in table else "mean_error"
        if metric not in table:
            raise errors.ArgumentError(f"there is no metric {metric!r}; there are {', '.join(self.metrics)}")
        attributes = list(dict.fromkeys(table.index.get_level_values("attribute")))
        axes = panels(len(attributes), axes)
        for panel, attribute in zip(axes, attributes):
            _plot_attribute(panel, table.xs(attribute, level="attribute"), metric, attribute)
        return axes

    @property
    def metrics(self) -> Tuple[str, ...]:
        """The names of the metrics of the groups."""
        return tuple(self.findings[0].groups["metrics"])

    def _repr_html_(self) -> str:
        names = ("notion", "prediction", "attribute", "decision", "p_adjusted", "trust", "verdict")
        signs = {"depends": "\u2717", "no dependence found": "\u2713"}
        return html_table({name: getattr(f, name) for name in names} | {"decision": f"{signs.get(f.decision, '?')} {f.decision}"}
                          for f in self.findings)

    def __reduce__(self):
        raise TypeError("an Audit cannot be pickled; pickle its results")


_ENDS = (("", "value"), ("_lower", "lower"), ("_upper", "upper"))


def _effect(finding: Finding) -> dict:
    found = {"kpc_above_chance": finding.kpc_above_chance, "kpc": (finding.effects or {}).get("kpc")}
    return {name + end: (one or {}).get(key, math.nan) for name, one in found.items() for end, key in _ENDS} | {
        "kpc_chance": (found["kpc"] or {}).get("chance", math.nan)}


def _with_ends(metrics: Dict[str, Any]) -> dict:
    """{"auc": {"value": v, "lower": l, "upper": u}} to {"auc": v, "auc_lower": l, "auc_upper": u}."""
    return {name + end: one[key] for name, one in metrics.items() if isinstance(one, dict)
            for end, key in _ENDS}


def _group_rows(finding: Finding) -> List[dict]:
    groups, known = finding.groups, ("prediction", "attribute")
    return [{**{name: getattr(finding, name) for name in known}, "group": label, "rows": groups["rows"][i],
             "compared": groups["compared"][i],
             **_with_ends({name: {end: one[end][i] for end in one} for name, one in groups["metrics"].items()})}
            for i, label in enumerate(groups["labels"])]


def _plot_attribute(panel, table, metric: str, attribute: str) -> None:
    """Draws points with bars, the predictions beside each other, without lines between groups."""
    predictions = list(dict.fromkeys(table.index.get_level_values("prediction")))
    labels = list(dict.fromkeys(table.index.get_level_values("group")))
    for k, prediction in enumerate(predictions):
        rows = table.xs(prediction, level="prediction").reindex(labels)
        value = rows[metric].to_numpy(float)
        ends = [value - rows[metric + "_lower"].to_numpy(float), rows[metric + "_upper"].to_numpy(float) - value]
        x = np.arange(len(labels)) + 0.15 * (k - 0.5 * (len(predictions) - 1))
        panel.errorbar(x, value, yerr=np.maximum(ends, 0), fmt="o", capsize=3, label=prediction)
    panel.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    panel.set(xlabel=attribute, ylabel=metric.replace("_", " "))
    if len(predictions) > 1:
        panel.legend()


def _model_path(options: Dict[str, Any], folder: str) -> Dict[str, Any]:
    """A predictor in memory as a file, which the library reads."""
    model = options.get("model")
    if not isinstance(model, (Predictor, Training)):
        return options
    path = os.path.join(folder, "model.safetensors")
    model.save(path)
    return {**options, "model": path}


def _finding(found: Dict[str, Any]) -> Finding:
    values: Dict[str, Any] = {field.name: found.get(field.name) for field in fields(Finding)}
    values.update({name: math.nan for name in ("p_value", "p_adjusted") if values[name] is None})
    return Finding(**values)


@_described("audit", "data")
def audit(data, *, progress: Optional[Progress] = None, **options) -> Audit:
    """Does a prediction depend on sensitive attributes, once the outcome is known?

    data: a DataFrame (pandas, polars, pyarrow), a dictionary of columns, an array, or the path of a table, with predictions,
    outcomes and attributes. progress: called with the finished share and a text; if it returns True, the work stops.

    >>> import numpy as np
    >>> y, e, f = np.random.default_rng(0).normal(size=(3, 300))
    >>> found = audit({"score": y + e, "y": y, "group": np.where(e + f > 0, "a", "b")}, prediction="score", target="y",
    ...               sensitive="group", calibrate=0)
    >>> found.findings[0].decision
    'depends'

    model: what circe.train returned, a Predictor, or the path of a model file. Its predictions for the data are audited.

    The options are those of `circe audit`:
    """
    with tempfile.TemporaryDirectory(prefix="circe-") as folder:
        job = Job("audit", data, _model_path(options, folder), progress)
        handle = job.run("circe_audit", "circe_audit_result_free")
    results = json.loads(_native.taken_text(_native.jobs().circe_audit_json(handle.pointer)))
    return Audit(tuple(map(_finding, results["findings"])), tuple(results["quality"]), results["n"], results["dropped"],
                 results["alpha"], tuple(map(job.schema.spelled, results.get("warnings", ()))), results["seconds"],
                 results)._holding(handle)
