"""The contract of a method: which arrays are learnt, and that only those that fit are loaded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from multidomain.methods.base import ArraySpec, FitContext, Method, check_arrays
from multidomain.methods.data import TrainingData
from multidomain.methods.gradient import GradientMethod
from multidomain.methods.history import History
from multidomain.methods.registry import METHODS, method_entry
from multidomain.methods.task import Task
from multidomain.settings import Settings

TASK = Task(4, 3, ("a", "b"), (0, 1))


def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype=dtype)


class NoSettings(Settings):
    pass


class Scaled(Method):
    """A matrix, and a factor that stands in an object of its own."""

    settings_type = NoSettings
    weight: np.ndarray

    class Inner:
        factor: np.ndarray

    def __init__(self, task: Task):
        super().__init__(task, NoSettings())
        self.inner = self.Inner()

    def arrays(self) -> dict[str, ArraySpec]:
        return super().arrays() | {"weight": ArraySpec((4, 3)), "inner.factor": ArraySpec((None,), np.int64)}

    def fit(self, data: TrainingData, context: FitContext) -> History:
        return History()

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self.inner.factor[0] * (x @ self.weight)


class Pair(Method):
    """Two methods, and a share."""

    settings_type = NoSettings
    share: np.ndarray

    def __init__(self, task: Task):
        super().__init__(task, NoSettings())
        self.methods = [Scaled(task), Scaled(task)]

    def arrays(self) -> dict[str, ArraySpec]:
        return super().arrays() | {"share": ArraySpec((1,))}

    def parts(self) -> Mapping[str, Method]:
        return {f"methods.{i}": method for i, method in enumerate(self.methods)}

    def fit(self, data: TrainingData, context: FitContext) -> History:
        return History()

    def logits(self, x: csr_matrix, d: int | None) -> np.ndarray:
        return self.share * self.methods[0].logits(x, d) + self.methods[1].logits(x, d)


CALIBRATION = {"inverse_temperature": zeros(3) + 2, "class_bias": zeros(3, 3) + 0.5}


def weights_of_scaled(value: float) -> dict[str, np.ndarray]:
    return {**CALIBRATION, "weight": zeros(4, 3) + np.float32(value), "inner.factor": np.array([2, 7, 1])}


def weights_of_pair() -> dict[str, np.ndarray]:
    own = {"inverse_temperature": zeros(3) + 1, "class_bias": zeros(3, 3), "share": zeros(1) + 0.25}
    return own | {f"methods.{i}.{name}": w for i in (0, 1) for name, w in weights_of_scaled(i + 1).items()}


# Arrays


@pytest.mark.parametrize(
    ("spec", "array", "fits"),
    [
        (ArraySpec((2, 3)), zeros(2, 3), True),
        (ArraySpec((2, None)), zeros(2, 9), True),
        (ArraySpec((None, None)), zeros(0, 0), True),
        (ArraySpec(()), zeros(), True),
        (ArraySpec((2,), np.int64), zeros(2, dtype=np.int64), True),
        (ArraySpec((2, 3)), zeros(3, 2), False),
        (ArraySpec((2, 3)), zeros(2), False),
        (ArraySpec((2,)), zeros(2, 3), False),
        (ArraySpec((None,)), zeros(2, 3), False),
        (ArraySpec((None, 3)), zeros(3, 2), False),
        (ArraySpec((2,)), zeros(2, dtype=np.float64), False),
        (ArraySpec((2,)), zeros(2, dtype=np.float16), False),
        (ArraySpec((2,), np.int64), zeros(2, dtype=np.int32), False),
    ],
    ids=str,
)
def test_what_fits(spec: ArraySpec, array: np.ndarray, fits: bool):
    assert spec.fits(array) == fits


def test_a_spec_in_words():
    assert str(ArraySpec((2, None, 3))) == "float32 of shape (2, any, 3)"
    assert str(ArraySpec((5,), np.int64)) == "int64 of shape (5)"


WANTED = {"bias": ArraySpec((3,)), "weight": ArraySpec((None, 3))}
GIVEN = {"bias": zeros(3), "weight": zeros(7, 3)}


def test_arrays_that_fit():
    check_arrays(GIVEN, WANTED)
    check_arrays({}, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"bias": zeros(3)}, "'weight' is missing"),
        ({}, "'bias', 'weight' are missing"),
        ({**GIVEN, "more": zeros(1)}, "'more' is unexpected"),
        ({**GIVEN, "z": zeros(1), "a": zeros(1)}, "'a', 'z' are unexpected"),
        ({**GIVEN, **{f"m{i}": zeros(1) for i in range(9)}}, "'m0', 'm1', 'm2', 'm3' and 5 more are unexpected"),
        ({"bias": zeros(3), "wieght": zeros(7, 3)}, "'weight' is missing"),
        (
            {**GIVEN, "weight": zeros(7, 2)},
            "'weight' should be float32 of shape (any, 3), and is float32 of shape (7, 2)",
        ),
        ({**GIVEN, "weight": zeros(7)}, "'weight' should be float32 of shape (any, 3), and is float32 of shape (7)"),
        (
            {**GIVEN, "bias": zeros(3, dtype=np.float64)},
            "'bias' should be float32 of shape (3), and is float64 of shape (3)",
        ),
    ],
)
def test_arrays_that_do_not_fit(given: dict[str, np.ndarray], said: str):
    with pytest.raises(ValueError) as caught:
        check_arrays(given, WANTED)
    assert str(caught.value) == said


# Weights of a method


def test_weights_go_to_the_attributes_they_are_named_after_and_come_back():
    method, weights = Scaled(TASK), weights_of_scaled(3)
    method.load_weights(weights)
    np.testing.assert_array_equal(method.weight, 3)
    assert method.inner.factor.tolist() == [2, 7, 1]
    np.testing.assert_array_equal(method.inverse_temperature, 2)
    assert method.weights().keys() == method.arrays().keys() == weights.keys()
    for name, array in method.weights().items():
        np.testing.assert_array_equal(array, weights[name])
    x = csr_matrix(np.eye(4, dtype=np.float32))
    np.testing.assert_array_equal(method.logits(x, 0), 6)
    np.testing.assert_array_equal(method.calibrated_logits(x, 0), 12.5)


def test_calibration_is_read_of_the_domain_or_of_unknown_ones():
    method = Scaled(TASK)
    method.load_weights(weights_of_scaled(1))
    method.inverse_temperature = np.array([1, 10, 100], dtype=np.float32)
    method.class_bias = np.array([[0, 0, 1], [0, 0, 2], [0, 0, 3]], dtype=np.float32)
    x = csr_matrix(np.ones((1, 4), dtype=np.float32))  # of logits 8
    for d, expected in ((None, [8, 8, 9]), (0, [80, 80, 82]), (1, [800, 800, 803])):
        assert method.calibrated_logits(x, d).tolist() == [expected]
        assert method.calibrated_logits_of_views(x, x, d).tolist() == [expected]


def test_a_new_method_is_not_calibrated():
    method = Scaled(TASK)
    np.testing.assert_array_equal(method.inverse_temperature, np.ones(3, dtype=np.float32))
    np.testing.assert_array_equal(method.class_bias, np.zeros((3, 3), dtype=np.float32))
    assert all(ArraySpec(a.shape).fits(a) for a in (method.inverse_temperature, method.class_bias))


def test_weights_of_before_there_was_calibration():
    method, weights = Scaled(TASK), weights_of_scaled(3)
    method.load_weights({name: array for name, array in weights.items() if name not in CALIBRATION})
    np.testing.assert_array_equal(method.inverse_temperature, 1)
    np.testing.assert_array_equal(method.class_bias, 0)
    np.testing.assert_array_equal(method.weight, 3)


def test_weights_are_counted_without_calibration():
    method = Scaled(TASK)
    method.load_weights(weights_of_scaled(3))
    assert method.n_weights == 4 * 3 + 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weight": None}, "'weight' is missing"),
        ({"inner.factor": None}, "'inner.factor' is missing"),
        ({"more": zeros(1)}, "'more' is unexpected"),
        ({"weight": zeros(3, 4)}, "'weight' should be float32 of shape (4, 3), and is float32 of shape (3, 4)"),
        (
            {"weight": zeros(4, 3, dtype=np.float64)},
            "'weight' should be float32 of shape (4, 3), and is float64 of shape (4, 3)",
        ),
        ({"inner.factor": zeros(3)}, "'inner.factor' should be int64 of shape (any), and is float32 of shape (3)"),
        (
            {"inverse_temperature": zeros(2)},
            "'inverse_temperature' should be float32 of shape (3), and is float32 of shape (2)",
        ),
        ({"class_bias": zeros(3, 2)}, "'class_bias' should be float32 of shape (3, 3), and is float32 of shape (3, 2)"),
        ({"__class__": zeros(1)}, "'__class__' is unexpected"),
    ],
    ids=str,
)
def test_weights_that_do_not_fit_are_refused_and_nothing_is_set(change: dict[str, np.ndarray | None], said: str):
    method = Scaled(TASK)
    method.load_weights(weights_of_scaled(3))
    changed = {n: w for n, w in {**weights_of_scaled(9), **change}.items() if w is not None}
    with pytest.raises(ValueError) as caught:
        method.load_weights(changed)
    assert str(caught.value) == said
    np.testing.assert_array_equal(method.weight, 3)
    assert type(method) is Scaled


# Parts


def test_weights_of_parts_stand_under_their_names():
    pair, weights = Pair(TASK), weights_of_pair()
    pair.load_weights(weights)
    assert [float(method.weight[0, 0]) for method in pair.methods] == [1, 2]
    assert [method.inverse_temperature.tolist() for method in pair.methods] == [[2, 2, 2]] * 2
    assert pair.inverse_temperature.tolist() == [1, 1, 1]
    assert pair.weights().keys() == weights.keys()
    for name, array in pair.weights().items():
        np.testing.assert_array_equal(array, weights[name], err_msg=name)
    assert pair.n_weights == sum(array.size for array in weights.values()) - 3 - 9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods.1.weight": None}, "'weight' is missing"),
        ({"methods.0.more": zeros(1)}, "'more' is unexpected"),
        ({"methods.2.weight": zeros(4, 3)}, "'methods.2.weight' is unexpected"),
        ({"methods.10.weight": zeros(4, 3)}, "'methods.10.weight' is unexpected"),
        ({"share": None}, "'share' is missing"),
        ({"weight": zeros(4, 3)}, "'weight' is unexpected"),
        (
            {"methods.1.weight": zeros(4, 2)},
            "'weight' should be float32 of shape (4, 3), and is float32 of shape (4, 2)",
        ),
    ],
    ids=str,
)
def test_weights_that_do_not_fit_a_part(change: dict[str, np.ndarray | None], said: str):
    changed = {n: w for n, w in {**weights_of_pair(), **change}.items() if w is not None}
    with pytest.raises(ValueError) as caught:
        Pair(TASK).load_weights(changed)
    assert said in str(caught.value)


def test_self_training_and_ensembles_are_made_of_parts():
    entry = method_entry("self-training")
    assert entry.build(TASK, entry.settings({"base": "svm"})).parts().keys() == {"base"}


# What methods declare


@pytest.mark.parametrize("name", ["fa-lr", "majority", "msda", "sped", "svm", "cmsc-lr", "mtl-graph", "rmtl"])
def test_a_method_that_is_no_network_declares_arrays(name: str):
    entry = METHODS[name]
    method = entry.method.untrained(TASK, entry.settings({}))
    assert not isinstance(method, GradientMethod)
    wanted = method.arrays()
    assert wanted.keys() > {"inverse_temperature", "class_bias"}
    shapes = {array: tuple(size or 0 for size in spec.shape) for array, spec in wanted.items()}
    weights = {array: np.zeros(shapes[array], dtype=spec.dtype) for array, spec in wanted.items()}
    method.load_weights(weights)
    assert method.weights().keys() == wanted.keys()
    assert method.logits(csr_matrix(np.eye(4, dtype=np.float32)), 0).shape == (4, 3)
