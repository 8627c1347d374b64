"""The HTML page: all sections in order, and the file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from multidomain.errors import ConfigError
from multidomain.files import whole_file
from multidomain.report.model.adversary import adversary_section
from multidomain.report.model.calibration import calibration_section
from multidomain.report.model.folder import ModelFolder
from multidomain.report.model.markup import Html, joined, tag
from multidomain.report.model.overview import data_section, head, settings_section
from multidomain.report.model.projection import features_section
from multidomain.report.model.quality import accuracy_section, confusion_section, mistakes_section
from multidomain.report.model.training import training_section
from multidomain.report.model.unlabelled import unlabelled_section
from multidomain.runs.folder import REPORT

SECTIONS: dict[str, tuple[str, Callable[[ModelFolder], Html]]] = {
    "data": ("Data", data_section),
    "accuracy": ("Accuracy by domain", accuracy_section),
    "unlabelled": ("Domains without labels", unlabelled_section),
    "training": ("Training", training_section),
    "adversary": ("Domain invariance", adversary_section),
    "features": ("Feature map (t-SNE)", features_section),
    "confusion": ("Confusion matrix", confusion_section),
    "calibration": ("Calibration", calibration_section),
    "mistakes": ("Most confident errors", mistakes_section),
    "settings": ("Settings and versions", settings_section),
}

# Nothing is loaded and nothing runs, even if a text gets past the escaping.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def model_page(run: ModelFolder) -> str:
    """Return the report as one self-contained HTML page."""
    sections = [
        tag("section", tag("h2", title, id=name), content(run), aria_labelledby=name)
        for name, (title, content) in SECTIONS.items()
    ]
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, (title, _) in SECTIONS.items()]
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    top = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{run.model.method_name} on {run.metrics.data.name}"),
        tag("style", Html(style)),
    )
    body = tag(
        "body",
        tag("a", "Skip to content", href="#content", class_="skip"),
        tag("nav", tag("ol", *links), aria_label="Sections"),
        tag("main", head(run), joined(sections, "\n"), id="content"),
    )
    return f"<!doctype html>\n{tag('html', top, body, lang='en')}\n"


def write_model_report(folder: Path, output: Path | None = None) -> Path:
    """Read a model's folder and write its report.

    Parameters
    ----------
    output
        The HTML file; by default inside the model's folder.
    """
    if output is None:
        output = folder / REPORT
        if output.is_symlink():  # the folder may come from anyone
            raise ConfigError(f"{output} is a link to another file, which is not replaced.", "Give {output=FILE}.")
    if output.suffix not in (".html", ".htm") or output.is_dir():
        raise ConfigError(f"The report of a model is one HTML file: give a name such as {REPORT}, not {output}.")
    page = model_page(ModelFolder.read(folder))
    with whole_file(output) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")
    return output
