"""The tests of circe inside packages that search for causal graphs, each with the package itself where it is installed."""

import pickle

import numpy as np
import pytest

import circe


def chain(n=300):
    """x -> y -> z, and a class that follows z."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=n)
    y = np.sin(2 * x) + 0.4 * rng.normal(size=n)
    z = y * y + y + 0.4 * rng.normal(size=n)
    return x, y, z, np.where(z + 0.3 * rng.normal(size=n) > np.median(z), 2, 1) + (rng.random(n) < 0.3) * 2


def test_types_and_tests_of_columns():
    pandas = pytest.importorskip("pandas")
    x, y, z, group = chain()
    frame = pandas.DataFrame({"x": x, "y": y, "z": z, "group": pandas.Categorical([f"g{g}" for g in group]),
                              "grade": pandas.Categorical(group, categories=[4, 3, 2, 1], ordered=True), "flag": x > 0})
    assert circe.column_types(frame) == ["number"] * 3 + ["category", "ordered", "category"]
    values, names, types = circe.encoded(frame, {"flag": "number"})
    assert values[:, 4].tolist() == [4 - g for g in group] and types[5] == "number" and names == list(frame.columns)
    test = circe.ColumnTest(frame)
    assert test("x", "z", ["y"]).p_value == circe.test(x, y, z, checks=False).p_value > 0.05
    assert "delta" in test("z", "group").kernel_z and test("z", "group").p_value < 0.01
    assert "delta" not in circe.ColumnTest(frame, {"group": "ordered"})("z", "group").kernel_z
    frame.loc[3, "x"] = np.nan
    assert circe.ColumnTest(frame)("x", "z").n == 299 and circe.ColumnTest(frame)("y", "z").n == 300
    copied = pickle.loads(pickle.dumps(test))
    assert copied("x", "z", ["y"]).p_value == test("x", "z", ["y"]).p_value
    for types, words in (({"x": "word"}, "must be one of number, ordered, category"), ({"q": "number"}, "names the column 'q'"),
                         (["number"], "types has 1 types and the table 6 columns")):
        with pytest.raises(circe.errors.ArgumentError, match=words):
            circe.ColumnTest(frame, types)
    with pytest.raises(circe.errors.ArgumentError, match="no column 'w'"):
        test("x", "w")
    masked = np.ma.masked_invalid(np.stack([np.where(np.arange(300) == 3, np.nan, x), z], axis=1))
    assert circe.ColumnTest(masked)(0, 1).n == 299


def test_causal_learn():
    pytest.importorskip("causallearn", reason="causal-learn is not installed")
    import circe.causallearn as bridge
    from causallearn.search.ConstraintBased.FCI import fci
    from causallearn.search.ConstraintBased.PC import pc

    x, y, z, group = chain()
    data = np.stack([x, y, z, group], axis=1)
    tested = bridge.CirceTest(data, types={3: "category"})
    assert tested(0, 2, [1]) == circe.test(x, y, z, checks=False).p_value > 0.05
    assert tested(0, 2) == tested(2, 0) < 0.05
    for options in ({}, {"method": "rcot"}, {"method": "gcm", "types": {3: "category"}}):
        graph = pc(data, 0.01, indep_test="circe", show_progress=False, **options).G.graph
        assert graph[0, 1] != 0 and graph[1, 2] != 0 and graph[0, 2] == 0, options
    assert fci(data[:, :3], "circe-rcot", 0.01, show_progress=False)[0].graph[0, 2] == 0
    assert pc(data[:, :3], 0.01, indep_test="fisherz", show_progress=False).G.graph.shape == (3, 3)


def test_pgmpy():
    pandas, pgmpy = pytest.importorskip("pandas"), pytest.importorskip("pgmpy", reason="pgmpy is not installed")
    from circe.pgmpy import CirceTest

    x, y, z, group = chain()
    frame = pandas.DataFrame({"x": x, "y": y, "z": z})
    test = CirceTest(frame)
    assert test("x", "z", ["y"]) and not test("x", "y") and test.p_value_ < 0.05
    assert CirceTest(method="rcot")("x", "z", ["y"], data=frame, boolean=False)[1] > 0.05
    with pytest.raises(circe.errors.ArgumentError, match="no data"):
        CirceTest()("x", "y")
    search = pytest.importorskip("pgmpy.causal_discovery", reason=f"pgmpy {pgmpy.__version__} has no causal_discovery")
    found = search.PC(variant="stable", ci_test=CirceTest(frame), show_progress=False).fit(frame)
    edges = {frozenset(edge) for edge in found.skeleton_.edges()}
    assert edges == {frozenset("xy"), frozenset("yz")}


def test_dowhy():
    falsify = pytest.importorskip("dowhy.gcm.falsify", reason="dowhy is not installed")
    import networkx
    import pandas

    from circe.dowhy import conditional_independence_test, make

    x, y, z, group = chain()
    frame = pandas.DataFrame({"x": x, "y": y, "z": z})
    assert conditional_independence_test(x, z, y) > 0.05 > conditional_independence_test(x, z)
    found = falsify.falsify_graph(networkx.DiGraph([("x", "y"), ("y", "z")]), frame, n_permutations=3, show_progress_bar=False,
                                  independence_test=make(method="gcm"), conditional_independence_test=make(method="gcm"))
    assert found is not None


def test_tigramite():
    pytest.importorskip("tigramite", reason="tigramite is not installed")
    from tigramite import data_processing
    from tigramite.pcmci import PCMCI

    from circe.tigramite import CirceTest

    rng = np.random.default_rng(2)
    series = rng.normal(size=(300, 2))
    for t in range(1, 300):
        series[t, 0] += 0.6 * series[t - 1, 0]
        series[t, 1] += np.tanh(series[t - 1, 0])
    for options in ({"method": "gcm"}, {"method": "kci"}, {"method": "gcm", "in_time": True}):
        search = PCMCI(dataframe=data_processing.DataFrame(series), cond_ind_test=CirceTest(**options))
        found = search.run_pcmci(tau_max=1, pc_alpha=0.05)["p_matrix"]
        assert found[0, 1, 1] < 0.01 and found[0, 0, 1] < 0.01 and found[1, 0, 1] > 0.01, options


def test_types_and_codes_of_every_frame():
    """The same columns in pandas, polars and Arrow, with missing cells, give the same test."""
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    random = np.random.default_rng(0)
    number, word, flag = random.normal(size=200), np.array(["10", "9", "b"], object)[np.arange(200) % 3], np.arange(200) % 7 == 0
    count = [None if k == 3 else k % 5 for k in range(200)]
    word[5] = None
    columns = {"number": number, "word": word.tolist(), "flag": flag, "count": count}
    tables = [polars.DataFrame(columns), pyarrow.table(columns), columns,
              pandas.DataFrame({**columns, "count": pandas.array(count, "Int64"), "word": pandas.Series(word, dtype="string")}),
              pandas.DataFrame(columns).convert_dtypes(dtype_backend="pyarrow")]
    for table in tables:
        kinds = {"count": "number"} if table is columns else None  # a list with None has no dtype
        values, names, types = circe.encoded(table, kinds)
        assert types == ["number", "category", "category", "number"] and names == list(columns), type(table)
        expected = np.array([np.nan if w is None else ["9", "10", "b"].index(w) for w in word])
        np.testing.assert_array_equal(values, np.stack([number, expected, flag, np.array(count, float)], axis=1))
    assert {circe.ColumnTest(table, {"count": "number"})("number", "word", ["count"]).n for table in tables} == {198}
    assert len({circe.ColumnTest(table, {"count": "number"})("number", "word", ["count"]).p_value for table in tables}) == 1
    assert circe.column_types(tables[0]) == circe.column_types(tables[1]) == ["number", "category", "category", "number"]


def test_refused_tables():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(circe.ArgumentError, match="the same name"):
        circe.encoded(pandas.DataFrame(np.zeros((3, 2)), columns=["a", "a"]))
    with pytest.raises(circe.ShapeError, match="'a' is an array of 2 dimensions"):
        circe.encoded({"a": np.zeros((3, 2))})
