"""What ``pip install multidomain`` weighs, from the packages that are installed here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

MOST_MB = 700


def needed(dist: Distribution, extras: Iterable[str] = ("",)) -> Iterator[Requirement]:
    """The requirements of a package that hold here, with some extras."""
    for requirement in map(Requirement, dist.requires or ()):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement


def closure(name: str) -> dict[str, Distribution]:
    """A package without extras, and all that it brings."""
    found: dict[str, Distribution] = {}
    left = [Requirement(name)]
    while left:
        requirement = left.pop()
        key = requirement.name.lower().replace("_", "-")
        if key not in found or requirement.extras:
            found[key] = distribution(requirement.name)
            left += needed(found[key], ("", *requirement.extras))
    return found


def size_mb(dist: Distribution) -> float:
    """The size of a package's files, without those that Python compiles."""
    paths = [Path(str(file.locate())) for file in dist.files or () if "__pycache__" not in file.parts]
    return sum(path.stat().st_size for path in paths) / 1e6


def test_an_installation_without_extras_is_small():
    packages = closure("multidomain")
    assert not {"torch", "pandas", "onnx"} & packages.keys()
    sizes = {name: size_mb(dist) for name, dist in packages.items() if name != "multidomain"}
    assert min(sizes["numba"], sizes["scipy"], sizes["scikit-learn"]) > 5, "packages are not where they are looked for"
    assert sum(sizes.values()) < MOST_MB, sorted(sizes.items(), key=lambda entry: -entry[1])[:8]
