"""Columns of pandas, polars and Arrow of every dtype: measures, tests, audits, training and losses take them alike."""

import inspect

import numpy as np
import pytest

import circe

N = 240
RANDOM = np.random.default_rng(8)
Y = RANDOM.normal(size=N)
E = RANDOM.normal(size=N)
X = Y + E
GROUP = np.array(["north", "south", "west"])[(E > -0.4).astype(int) + (E > 0.4)]
COUNT = (10 * Y).astype(int)
FLAG = E > 0
TABLE = {"x": X, "y": Y, "count": COUNT, "flag": FLAG, "group": GROUP}


class Stream:
    """Nothing but the Arrow stream of something."""

    def __init__(self, inside):
        self.inside = inside

    def __arrow_c_stream__(self, requested_schema=None):
        return self.inside.__arrow_c_stream__(requested_schema)


def _pandas(kind):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE)
    if kind == "nullable":
        return frame.convert_dtypes()
    if kind == "pyarrow-backed":
        pytest.importorskip("pyarrow")
        return frame.convert_dtypes(dtype_backend="pyarrow")
    if kind == "ordered":
        frame["group"] = pandas.Categorical(GROUP, categories=["west", "south", "north"], ordered=True)
    return frame


def _polars(kind):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(TABLE)
    dtypes = {"polars": polars.String, "polars-categorical": polars.Categorical,
              "polars-enum": polars.Enum(["west", "south", "north"])}
    return frame.with_columns(polars.col("group").cast(dtypes[kind]))


def _arrow(kind):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(TABLE)
    if kind == "dictionary":
        return table.set_column(4, "group", table.column("group").dictionary_encode())
    if kind == "chunks":
        return pyarrow.concat_tables([table[:100], table[100:]])
    return {"arrow": lambda: table, "batch": lambda: table.combine_chunks().to_batches()[0], "stream": lambda: Stream(table)}[kind]()


FORMS = {**dict.fromkeys(["pandas", "nullable", "pyarrow-backed", "ordered"], _pandas),
         **dict.fromkeys(["polars", "polars-categorical", "polars-enum"], _polars),
         **dict.fromkeys(["arrow", "dictionary", "chunks", "batch", "stream"], _arrow)}


@pytest.fixture(params=FORMS)
def table(request):
    return FORMS[request.param](request.param)


def columns(table, *names):
    """Some of its columns, as the same kind of table, or one of them as a column."""
    if isinstance(table, Stream):
        found = columns(table.inside, *names)
        return Stream(found)
    if hasattr(table, "get_columns") or hasattr(table, "iloc"):
        return table[list(names)] if len(names) > 1 else table[names[0]]
    return table.select(list(names)) if len(names) > 1 else table.column(names[0])


# ---- measures and tests ---------------------------------------------------------------------------------------------------


def test_measures_and_tests(table):
    expected = circe.hsic(X, GROUP)
    found = circe.hsic(columns(table, "x"), columns(table, "group"))
    assert found.value == expected.value and found.columns[0]["categories"] == 3
    several = circe.hsic(columns(table, "x"), columns(table, "count", "flag", "group"))
    assert [(c["column"], c["categories"]) for c in several.columns] == [("group", 3)]
    assert circe.test(columns(table, "x"), columns(table, "y"), columns(table, "group")).p_value == \
        circe.test(X, Y, GROUP).p_value
    mean = circe.ConditionalMean(sigma2_y=1.0).fit(columns(table, "y"), columns(table, "group"))
    value = circe.circe(X, Y, GROUP, circe.ConditionalMean(sigma2_y=1.0).fit(Y, GROUP), sigma2_x=1.0).value
    assert circe.circe(columns(table, "x"), columns(table, "y"), columns(table, "group"), mean, sigma2_x=1.0).value == value
    for name in ("count", "flag"):
        assert circe.hsic(X, columns(table, name)).value == circe.hsic(X, TABLE[name].astype(float)).value


def test_what_is_missing():
    pyarrow = pytest.importorskip("pyarrow")
    holes = [None if i % 40 == 7 else float(v) for i, v in enumerate(X)]
    left = np.arange(N) % 40 != 7
    column = pyarrow.array(holes)
    with pytest.raises(circe.DataError, match="x contains a NaN at row 7"):
        circe.hsic(column, Y)
    assert circe.hsic(column, Y, missing="drop").value == circe.hsic(X[left], Y[left]).value
    words = pyarrow.array([None if i % 40 == 7 else word for i, word in enumerate(GROUP.tolist())]).dictionary_encode()
    with pytest.raises(circe.DataError, match="z: row 7 is missing"):
        circe.hsic(X, words)
    assert circe.hsic(X, words, missing="drop").value == circe.hsic(X[left], GROUP[left]).value


def test_numbers_that_are_called_categories():
    """By the dtype, in every library; text that is all numbers is numbers otherwise."""
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    codes = np.array(["1", "2", "3"])[np.unique(GROUP, return_inverse=True)[1]]
    dictionary = pyarrow.array(codes.tolist()).dictionary_encode()
    backed = pandas.Series(pandas.arrays.ArrowExtensionArray(pyarrow.chunked_array([dictionary])))
    for form in (pandas.Series(pandas.Categorical(codes)), dictionary, backed):
        assert circe.hsic(X, form).value == circe.hsic(X, GROUP).value
    assert circe.hsic(X, codes.tolist()).columns == ()


def test_dates_are_refused():
    pyarrow = pytest.importorskip("pyarrow")
    dates = pyarrow.array(np.arange(N).astype("datetime64[D]"))
    with pytest.raises(circe.DTypeError, match="x has a column of date32"):
        circe.hsic(dates, Y)
    with pytest.raises(circe.DTypeError, match="column 'when' contains date"):
        circe.audit({"when": dates, "y": Y, "group": GROUP}, prediction="when", target="y", sensitive="group")


# ---- jobs -----------------------------------------------------------------------------------------------------------------


def test_audits_and_training(table):
    options = {"prediction": "x", "target": "y", "sensitive": ["group", "flag"], "calibrate": 0, "seed": 1}
    expected = circe.audit(TABLE, **options)
    assert [f.p_value for f in circe.audit(table, **options).findings] == [f.p_value for f in expected.findings]
    options = {"features": ["x", "group", "flag"], "target": "y", "invariant_to": "group", "gamma": 3, "epochs": 1, "net": "4",
               "batch": 32, "baseline": "none"}
    trained = circe.train(table, **options)
    assert trained.results["error"] == circe.train(TABLE, **options).results["error"]
    assert trained.predict(table).values.shape == (N, 1)


def test_an_unseen_category_is_told(table):
    trained = circe.train(table, features=["x", "group"], target="y", regularizer="none", epochs=1, net="4", batch=32)
    with pytest.raises(circe.CirceError, match="'east', which did not occur in training"):
        trained.predict({"x": [1.0, 2.0], "group": ["north", "east"]})


# ---- losses ---------------------------------------------------------------------------------------------------------------


def torch_losses():
    torch = pytest.importorskip("torch")
    import circe.torch as losses

    x = torch.tensor(X[:, None], requires_grad=True)
    return {"circe": lambda y, z, mean: losses.CirceLoss(mean, sigma2_x=1.0)(x, y, z),
            "hsic": lambda y, z, mean: losses.HSICLoss(sigma2_x=1.0, kernel_z="delta")(x, z),
            "hscic": lambda y, z, mean: losses.HSCICLoss(sigma2_x=1.0, sigma2_y=1.0, kernel_z="delta", ridge=0.1)(x, y, z),
            "wrong": lambda y, z, mean: losses.HSICLoss(sigma2_x=1.0, sigma2_z=1.0)(x, z),
            "gcm": lambda y, z, mean: losses.GCMLoss(regression="linear")(x, y, z)}


def jax_losses():
    pytest.importorskip("jax")
    import circe.jax as losses

    x = X[:, None].astype(np.float32)
    return {"circe": lambda y, z, mean: losses.circe_loss(x, y, z, mean, sigma2_x=1.0),
            "hsic": lambda y, z, mean: losses.hsic_loss(x, z, sigma2_x=1.0, kernel_z="delta"),
            "hscic": lambda y, z, mean: losses.hscic_loss(x, y, z, sigma2_x=1.0, sigma2_y=1.0, kernel_z="delta", ridge=0.1),
            "wrong": lambda y, z, mean: losses.hsic_loss(x, z, sigma2_x=1.0, sigma2_z=1.0),
            "gcm": lambda y, z, mean: losses.gcm_loss(x, y, z, regression="linear")}


@pytest.mark.parametrize("library", [torch_losses, jax_losses])
def test_losses(table, library):
    losses = library()
    mean = circe.ConditionalMean(sigma2_y=1.0).fit(Y, GROUP)
    codes = mean.encode(GROUP, "z")
    as_array = __import__("torch").as_tensor if library is torch_losses else np.asarray
    for name in ("circe", "hsic", "hscic"):
        expected = float(losses[name](as_array(Y), as_array(codes), mean))
        assert float(losses[name](columns(table, "y"), columns(table, "group"), mean)) == pytest.approx(expected, rel=1e-6)
    assert float(losses["gcm"](columns(table, "y"), columns(table, "count"), mean)) == pytest.approx(
        float(losses["gcm"](as_array(Y), as_array(COUNT.astype(float)), mean)), rel=1e-5)


@pytest.mark.parametrize("library", [torch_losses, jax_losses])
def test_losses_refuse(library):
    losses = library()
    mean = circe.ConditionalMean(sigma2_y=1.0).fit(Y, GROUP)
    with pytest.raises(circe.DTypeError, match="z contains categories.*kernel_z='delta'"):
        losses["wrong"](Y, GROUP, mean)
    with pytest.raises(circe.DTypeError, match="z contains categories.*one column of 0 and 1 per category"):
        losses["gcm"](Y, GROUP, mean)
    with pytest.raises(circe.DataError, match="z: row 3 is 'east', which the fit has not seen"):
        losses["circe"](Y, np.where(np.arange(N) == 3, "east", GROUP), mean)
    with pytest.raises(circe.DataError, match="y is masked: row 5 is missing"):
        losses["circe"](np.ma.masked_array(Y, np.arange(N) == 5), GROUP, mean)


def test_no_argument_is_private():
    """What help() and the reference show of a class is what its users may give."""
    for name in circe.__all__:
        shown = getattr(circe, name)
        if isinstance(shown, type) and not issubclass(shown, Exception):
            private = [one for one in inspect.signature(shown).parameters if one.startswith("_")]
            assert not private, (name, private)


def test_odd_columns():
    """What ended in an error of another library, or of Python."""
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for drop in ("drop", "refuse"):
        with pytest.raises(circe.ShapeError, match="0 dimensions"):
            circe.hsic(X, np.array(3.0), missing=drop)
    with pytest.raises(circe.ShapeError, match="0 dimensions"):
        circe.hsic(np.array(3.0), X, weights=[1.0])
    structs = arrow.array([{"a": v, "b": v} for v in X])
    with pytest.raises(circe.DTypeError, match="'v' is a struct of a, b"):
        circe.test_many({"x": X, "v": structs}, [("x", "v")])
    if hasattr(polars, "Int128"):
        wide = polars.Series(COUNT.tolist(), dtype=polars.Int128)
        assert circe.hsic(X, wide).value == circe.hsic(X, COUNT).value
        assert circe.hsic(X, polars.DataFrame({"c": wide})).value == circe.hsic(X, COUNT).value
        one, other = (circe.test_many({"x": X, "v": v}, [("x", "v")])[0] for v in (wide, COUNT))
        assert one.p_value == other.p_value
    certain = circe.test_many({"x": X, "v": np.arange(N) % 2}, [("x", "v")], method="gcm")[0]
    assert isinstance(float(certain), float) and all(isinstance(p, float) for p in (certain.p_value, certain.p_holm, certain.p_bh))


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "pandas"])
def test_audit_of_booleans(kind):
    """True, False and missing, in an attribute, a target and in rows that go."""
    module = pytest.importorskip(kind)
    flag = [None if i % 40 == 7 else bool(v) for i, v in enumerate(FLAG)]
    columns = {"score": 1 / (1 + np.exp(-X)), "won": Y > 0, "flag": flag}
    made = {"polars": lambda: module.DataFrame(columns), "pyarrow": lambda: module.table(columns),
            "pandas": lambda: module.DataFrame({**columns, "flag": module.array(flag, dtype="boolean")})}[kind]()
    options = {"prediction": "score", "target": "won", "sensitive": "flag", "calibrate": 0}
    with pytest.raises(circe.DataError, match="row 7, column 'flag' is missing"):
        circe.audit(made, **options)
    found = circe.audit(made, missing="drop", **options)
    kept = np.array([v is not None for v in flag])
    words = {name: np.asarray(v)[kept].astype(str) if name != "score" else v[kept] for name, v in columns.items()}
    expected = circe.audit(words, positive="True", **options)
    assert found.n == kept.sum() and found.findings[0].groups["labels"] == ["False", "True"]
    assert found.findings[0].gaps[0]["gap"] == pytest.approx(expected.findings[0].gaps[0]["gap"], rel=1e-12)
