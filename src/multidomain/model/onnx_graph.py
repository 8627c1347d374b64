"""ONNX graphs, node by node. It needs onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9  # the oldest with sums in ScatterND: runtimes since 2023 read them


class Graph:
    """A graph that is built from its inputs to its outputs; nodes and arrays are referred to by their names."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._arrays: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def input(self, name: str, *shape: str) -> str:
        """Add an input of strings."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.STRING, shape))
        return name

    def output(self, name: str, node: str, kind: int, *shape: str | int) -> None:
        """Name an output."""
        self._nodes.append(helper.make_node("Identity", [node], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def array(self, values: Any) -> str:
        """Add an array of numbers or strings."""
        name = f"array{len(self._arrays)}"
        array = np.array(values, dtype=object) if isinstance(values, list) else np.asarray(values, order="C")
        self._arrays.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node of one output."""
        name = f"{operator}{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def lookup(self, of: str, **tables: Any) -> str:
        """Look keys up in a table, which is given as the operator LabelEncoder has it."""
        return self.node("LabelEncoder", of, domain="ai.onnx.ml", **tables)

    def rows(self, table: np.ndarray, of: str) -> str:
        """Return rows of an array, as numbers of double precision."""
        return self.node("Cast", self.node("Gather", self.array(table), of), to=TensorProto.DOUBLE)

    def sums(self, values: str, row: str, n_rows: str, *shape: int) -> str:
        """Return sums of values of the given shape over the entries of each row."""
        size = self.node("Concat", n_rows, self.array(np.array(shape, dtype=np.int64)), axis=0)
        zeros = self.node("ConstantOfShape", size, value=numpy_helper.from_array(np.zeros(1)))
        return self.node("ScatterND", zeros, self.node("Unsqueeze", row, self.axis(1)), values, reduction="add")

    def axis(self, number: int) -> str:
        """Return the number of an axis."""
        return self.array(np.array([number], dtype=np.int64))

    def number(self, value: float) -> str:
        """Return a number of double precision."""
        return self.array(np.array(value, dtype=np.float64))

    def model(self, name: str, about: dict[str, str]) -> ModelProto:
        """Return the graph as a model, with facts about it."""
        graph = helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._arrays)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="multidomain")
        helper.set_model_props(model, about)
        return model
