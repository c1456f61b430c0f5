"""Every example that a reader may copy runs: docstrings, docs/python.md, python/examples."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import circe
from conftest import SOURCE

PACKAGE = Path(circe.__file__).parent
MODULES = sorted(".".join(("circe", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
                 for path in PACKAGE.rglob("*.py") if ">>>" in path.read_text(encoding="utf-8"))
EXAMPLES = sorted((SOURCE / "python" / "examples").glob("*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    for part in {"jax", "sklearn", "torch"}.intersection(name.split(".")):
        pytest.importorskip(part)
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted > 0 and failed == 0


def blocks():
    page = SOURCE / "docs" / "python.md"
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.S) if page.exists() else []


@pytest.mark.skipif(not blocks(), reason="no docs/python.md here")
def test_the_page(tmp_path, monkeypatch):
    """Its blocks, one after the other, as a reader would type them."""
    for module in ("torch", "sklearn", "pandas"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks()):
        exec(compile(block, f"docs/python.md, block {number}", "exec"), names)


@pytest.mark.skipif(not blocks(), reason="no docs/python.md here")
def test_the_page_tells_innocent_from_guilty():
    """What the page calls innocent is not found dependent, and what it calls guilty is."""
    names = {}
    exec(blocks()[0], names)
    few = slice(1500, 1900)
    p = {name: circe.test(names[name][few], names["y"][few], names["z"][few]).p_value for name in ("innocent", "guilty")}
    assert p["guilty"] < 0.001 and p["innocent"] > 0.05


def test_the_tutorial_of_a_loop_keeps_its_promise():
    """The invariant network of docs/tutorials/pytorch.md is invariant, and the free one is not."""
    pytest.importorskip("torch")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (SOURCE / "docs" / "tutorials" / "pytorch.md").read_text(), flags=re.S):
        exec(block, names)
    assert names["p"]["free"] < 1e-9 and names["p"]["invariant"] > 0.05


TRAINERS = SOURCE / "docs" / "howto" / "trainers.md"


@pytest.mark.parametrize("title, module", [("Lightning", "lightning"), ("The Hugging Face Trainer", "transformers"), ("JAX", "jax")])
@pytest.mark.skipif(not TRAINERS.exists(), reason="no docs/howto here")
def test_trainers(title, module, tmp_path, monkeypatch):
    """The section's block, after the first one's data, which need neither Lightning nor a trainer."""
    pytest.importorskip("torch")
    pytest.importorskip(module)
    parts = re.split(r"^## ", TRAINERS.read_text(), flags=re.M)
    block = {part.partition("\n")[0]: re.findall(r"```python\n(.*?)```", part, flags=re.S) for part in parts[1:]}
    (first,), (wanted,) = block["Lightning"], block[title]
    if title != "Lightning":
        data = first[:first.index("class Invariant")] + first[first.index("rows ="):first.index("trainer =")]
        wanted = data.replace("import lightning, numpy", "import numpy").replace("import numpy as np, torch", "import numpy as np\nimport torch") + wanted
    monkeypatch.chdir(tmp_path)
    exec(compile(wanted, f"docs/howto/trainers.md, {title}", "exec"), {})


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_examples(path, tmp_path):
    pytest.importorskip("torch")
    if "import sklearn" in path.read_text() or "from sklearn" in path.read_text():
        pytest.importorskip("sklearn")
    done = subprocess.run([sys.executable, str(path), "--quick"], capture_output=True, text=True, timeout=300, cwd=tmp_path,
                          env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "times less" in done.stdout


def test_the_notebook(tmp_path):
    """Executed from its first cell to its last; the stored one contains outputs and figures."""
    path = SOURCE / "python" / "examples" / "counterfactual.ipynb"
    if not path.exists():
        pytest.skip("no notebook here")
    notebook = json.loads(path.read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code if "plt.show" in "".join(cell["source"]))
    assert len(path.read_bytes()) < 400_000
    for module in ("torch", "matplotlib"):
        pytest.importorskip(module)
    script = "import matplotlib\nmatplotlib.use('Agg')\n" + "\n".join("".join(cell["source"]) for cell in code)
    (tmp_path / "notebook.py").write_text(script)
    done = subprocess.run([sys.executable, "notebook.py"], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
