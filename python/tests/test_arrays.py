"""What may be passed as x, y and z: without a copy where the layout allows, and with a clear refusal otherwise."""

import numpy as np
import pytest

import circe
from circe import _arrays, _native


def seen(values, dtype=None):
    """The view's fields, and the array it is of."""
    packed, array = _arrays.view(values, "x", dtype)
    return _native.Mat.from_buffer_copy(packed), array


def read(found):
    """The numbers that the library would read."""
    view, keep = found
    kind = {1: np.float32, 2: np.float64}[view.dtype]
    raw = np.ctypeslib.as_array((np.ctypeslib.as_ctypes_type(kind) * (view.rows * view.ld)).from_address(view.data))
    return np.array([raw[i * view.ld:i * view.ld + view.cols] for i in range(view.rows)])


TABLE = np.arange(24.0).reshape(6, 4)


@pytest.mark.parametrize("name,values", [
    ("row-major", TABLE), ("float32", TABLE.astype(np.float32)), ("rows by a step", TABLE[::2]),
    ("some columns", TABLE[:, 1:3]), ("one column", TABLE[:, 2]), ("one column of two dimensions", TABLE[:, 2:3]),
    ("read-only", np.broadcast_to(TABLE, TABLE.shape)), ("vector", np.arange(5.0)), ("column-major vector", TABLE.T[:1].T)])
def test_no_copy(name, values):
    view, array = seen(values)
    assert np.shares_memory(array, values)
    assert view.data == values.ctypes.data
    np.testing.assert_array_equal(read((view, array)), values.reshape(len(values), -1))


@pytest.mark.parametrize("name,values", [
    ("column-major", np.asfortranarray(TABLE)), ("backwards", TABLE[::-1]), ("columns by a step", TABLE[:, ::2]),
    ("repeated rows", np.broadcast_to(TABLE[0], (3, 4))), ("integers", np.arange(6).reshape(3, 2)),
    ("booleans", np.array([True, False])), ("float16", TABLE.astype(np.float16)), ("big-endian", TABLE.astype(">f8")),
    ("list", [[1, 2], [3, 4]]), ("a number of threads", range(4)), ("unaligned", np.frombuffer(
        b"\0" + TABLE.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(6, 4))])
def test_copies_that_are_right(name, values):
    view, array = seen(values)
    assert view.data % array.itemsize == 0
    expected = np.asarray(values, dtype=float)
    np.testing.assert_array_equal(read((view, array)), expected.reshape(len(expected), -1))


def test_whole_numbers_that_float64_cannot_tell_apart_are_refused():
    ids = 2**53 + np.arange(30) % 5
    with pytest.raises(circe.DataError, match="z has whole numbers .* 9007199254740992 and 9007199254740993"):
        circe.hsic(np.arange(30.0), ids, kernel_z="delta")
    for fine in (ids - 2**53, 2**53 + 256 * (np.arange(30) % 5), -ids.astype(np.uint64) % 7):
        circe.hsic(np.arange(30.0), fine, kernel_z="delta")


def test_dtype_is_changed_on_request():
    view, array = seen(TABLE, np.dtype(np.float32))
    assert view.dtype == _native.FLOAT32
    np.testing.assert_array_equal(read((view, array)), TABLE)


@pytest.mark.parametrize("values,error,text", [
    (np.zeros((2, 2, 2)), circe.ShapeError, "x has 3 dimensions"), (np.float64(1.0), circe.ShapeError, "x has 0 dimensions"),
    (np.array([1j]), circe.DTypeError, "x has dtype complex128"),
    (np.array([object()]), circe.DTypeError, "x has dtype object"), (None, circe.ArgumentError, "x is missing"),
    ([[1, 2], [3]], circe.DTypeError, "x is not an array|x has dtype object"),
    (np.array(["2020-01-01"], dtype="datetime64[D]"), circe.DTypeError, "x has dtype datetime64")])
def test_refused(values, error, text):
    with pytest.raises(error, match=text):
        seen(values)


def test_empty_is_named(points, mean):
    with pytest.raises(circe.ShapeError, match="x is 0 by 1"):
        circe.hsic(np.empty((0, 1)), points.z, sigma2_x=1.0, sigma2_z=1.0)
    with pytest.raises(circe.ShapeError, match="y"):
        circe.circe(points.x, np.empty((160, 0)), points.z, mean, sigma2_x=1.0)
    with pytest.raises(circe.ShapeError, match="y is 0 by 1"):
        circe.circe(points.x, [], points.z, mean, sigma2_x=1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("which", ["x", "y", "z"])
def test_nan_is_named_by_argument_row_and_column(points, mean, bad, which):
    arrays = {"x": points.x.copy(), "y": points.y.copy(), "z": points.z.copy()}
    arrays[which][7, 0] = bad
    with pytest.raises(circe.DataError, match=f"{which} contains .* row 7, column 0"):
        circe.circe(**arrays, mean=mean, sigma2_x=1.0)


def test_rows_must_agree(points, mean):
    with pytest.raises(circe.ShapeError, match="z"):
        circe.circe(points.x, points.y, points.z[:-1], mean, sigma2_x=1.0)
    with pytest.raises(circe.ShapeError, match="y"):
        circe.circe(points.x, points.y[:-1], points.z[:-1], mean, sigma2_x=1.0)


# ---- other libraries' tables --------------------------------------------------------------------------------------------


def test_pandas(points, mean):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": points.x[:, 0], "y": points.y[:, 0], "z": points.z[:, 0]})
    expected = circe.circe(points.x[:, 0], points.y, points.z, mean, sigma2_x=1.0).value
    assert circe.circe(frame["x"], frame["y"], frame[["z"]], mean, sigma2_x=1.0).value == expected
    view, array = seen(frame["y"])
    assert np.shares_memory(array, frame["y"].to_numpy())
    with pytest.raises(circe.DTypeError, match="y has a column of datetime"):
        circe.ConditionalMean().fit(pandas.Series(pandas.to_datetime(["2020-01-01", "2020-01-02"])), frame["z"][:2])
    nullable = pandas.array([0.5] * 9 + [None], dtype="Float64")
    with pytest.raises(circe.DataError, match="y contains a NaN at row 9"):
        circe.ConditionalMean().fit(pandas.Series(nullable), frame["z"][:10])
    mixed = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]})
    np.testing.assert_array_equal(read(seen(mixed)), mixed.to_numpy(dtype=float))


def test_polars(points, mean):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"x": points.x[:, 0], "y": points.y[:, 0], "z": points.z[:, 0]})
    expected = circe.circe(points.x[:, 0], points.y, points.z, mean, sigma2_x=1.0).value
    assert circe.circe(frame["x"], frame["y"], frame.select("z"), mean, sigma2_x=1.0).value == expected
    column = frame["y"]
    assert np.shares_memory(seen(column)[1], column.to_numpy())
    with pytest.raises(circe.DTypeError, match="x has a column of Object|x contains"):
        seen(polars.Series([object(), object()], dtype=polars.Object))


def test_torch_on_the_cpu(points, mean):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(points.x, requires_grad=True)
    view, array = seen(tensor)
    assert view.data == tensor.data_ptr()
    expected = circe.circe(points.x, points.y, points.z, mean, sigma2_x=1.0).value
    assert circe.circe(tensor, torch.tensor(points.y), points.z, mean, sigma2_x=1.0).value == expected
    assert seen(torch.arange(3))[0].dtype == _native.FLOAT64
    np.testing.assert_array_equal(read(seen(torch.arange(3).to(torch.bfloat16))), [[0], [1], [2]])
    with pytest.raises(circe.DeviceError, match="x is on meta"):
        seen(torch.empty(3, device="meta"))
    with pytest.raises(circe.DTypeError, match="x is a sparse tensor"):
        seen(torch.eye(3).to_sparse())


HUNDRED = np.random.default_rng(0).normal(size=(3, 100))


@pytest.mark.parametrize("values, words", [
    (np.array(3.0), "x has 0 dimensions"),
    ("words", "x is of type str; it must be an array"),
    ((value for value in HUNDRED[0]), "x is of type generator; it must be an array"),
    ({"a": HUNDRED[0]}, "x is of type dict; it must be an array"),
    ([10**400] * 100, "x: the number in row 0 is too large for a double"),
    (HUNDRED[0] + 1j, "x has dtype complex128; it must contain real numbers"),
    (np.arange(100).astype("datetime64[D]"), "must contain real numbers"),
    (HUNDRED[0][:1], "x has 1 rows, y 100 and z 100"),
])
def test_what_is_no_array(values, words):
    _, y, z = HUNDRED
    with pytest.raises(circe.CirceError, match=words):
        circe.test(values, y, z, method="gcm")


@pytest.mark.parametrize("name", ["weights", "groups"])
@pytest.mark.parametrize("values", [HUNDRED[0] + 1j, np.arange(100).astype("datetime64[D]")], ids=["complex", "dates"])
def test_what_belongs_to_rows_is_real(name, values):
    """A complex number would lose its imaginary part, and a date become a number of days."""
    with pytest.raises(circe.DTypeError, match=f"{name} has dtype .*; it must contain real numbers"):
        circe.test(*HUNDRED, method="gcm", **{name: values})


def test_large_identifiers_are_different_groups():
    """Above 2^53 a double does not tell neighbours apart."""
    small = np.arange(100) // 2
    found = [circe.test(*HUNDRED, method="gcm", groups=groups) for groups in (small, small + 2**60)]
    assert found[0].blocks == found[1].blocks == 50 and found[0].p_value == found[1].p_value


def test_spans_of_time_are_times():
    days = np.arange(100)
    found = {circe.test(*HUNDRED, method="gcm", time=time).p_value
             for time in (days, days.astype("timedelta64[D]"), days.astype("datetime64[D]"))}
    assert len(found) == 1


def test_sparse_matrices_are_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(circe.DTypeError, match=r"x is of type csr_matrix; .* x.toarray\(\)"):
        circe.hsic(sparse.csr_matrix(HUNDRED[0][:, None]), HUNDRED[1])


def test_arrays_of_pandas_are_read():
    pandas = pytest.importorskip("pandas")
    x, y, z = HUNDRED
    assert circe.hsic(pandas.array(x), z).value == circe.hsic(x, z).value
    words = np.where(z > 0, "a", "b")
    assert circe.hsic(x, pandas.Categorical(words)).value == circe.hsic(x, pandas.Series(words)).value
    with pytest.raises(circe.DTypeError, match="x is of type DataFrameGroupBy"):
        circe.hsic(pandas.DataFrame({"a": x}).groupby("a"), z)


def test_queries_of_polars_are_refused():
    polars = pytest.importorskip("polars")
    with pytest.raises(circe.DTypeError, match=r"x is a LazyFrame, which contains no rows yet: pass x.collect\(\)"):
        circe.hsic(polars.DataFrame({"a": HUNDRED[0]}).lazy(), HUNDRED[1])


@pytest.mark.parametrize("column, words", [(np.array(1.0), "column 'x' is one number"), ({"a": 1}, "column 'x' is of type dict"),
                                           ({1.0, 2.0}, "column 'x' is of type set"), (3, "column 'x' is of type int")])
def test_what_is_no_column(column, words):
    with pytest.raises(circe.CirceError, match=words):
        circe.test_many({"x": column, "z": HUNDRED[1]}, [("x", "z")])


def test_frames_are_no_columns():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(circe.DTypeError, match="column 'x' is of type DataFrame"):
        circe.test_many({"x": pandas.DataFrame({"a": HUNDRED[0]}), "z": HUNDRED[1]}, [("x", "z")])


def test_columns_of_one_table_have_its_rows():
    with pytest.raises(circe.ShapeError, match="different numbers of rows"):
        circe.encoded({"x": HUNDRED[0], "z": HUNDRED[1][:50]})
