"""Methods: one paper is one file; `registry` knows them by name."""

from multidomain.methods.base import Batch, FittedMethod, GradientMethod, Method, Stream, Task
from multidomain.methods.registry import METHODS, RECOMMENDED, MethodEntry, method_entry

__all__ = [
    "METHODS",
    "RECOMMENDED",
    "Batch",
    "FittedMethod",
    "GradientMethod",
    "Method",
    "MethodEntry",
    "Stream",
    "Task",
    "method_entry",
]
