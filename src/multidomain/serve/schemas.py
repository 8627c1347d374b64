"""Request and response schemas of the API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from multidomain.model.settings import UnknownDomain
from multidomain.serve.predictor import Answer, Question


def _characters(text: str) -> str:
    """Refuse halves of surrogate pairs, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("expected characters, found half of a surrogate pair") from None
    return text


Name = Annotated[str, AfterValidator(_characters)]
Text = Annotated[Name, Field(json_schema_extra={"pattern": r"\S"}, description="A text; not blank.")]
Domain = Annotated[
    Name | None,
    Field(
        description="Name of a domain. null: predict from the shared features alone, or refuse if the "
        "model has none (`answers_without_domain` of /v1/model)."
    ),
]
OnUnknown = Annotated[
    UnknownDomain,
    Field(
        description="What to do with a domain that was not in training: predict from the shared features, with a "
        "warning, or refuse the request."
    ),
]


class PredictRequest(BaseModel):
    """One text or several, with a domain for all or for each."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "oneOf": [{"required": ["text"]}, {"required": ["texts"]}],
            "dependentRequired": {"domains": ["texts"]},
        },
    )

    text: Text = ""
    texts: Annotated[list[Text], Field(json_schema_extra={"minItems": 1}, description="Several texts.")] = []
    domain: Domain = None
    domains: Annotated[list[Domain], Field(description="A domain for each of several texts.")] = []
    unknown_domain: OnUnknown = "shared"

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        given = self.model_fields_set
        if len(given & {"text", "texts"}) != 1:
            raise ValueError("give either 'text', one text, or 'texts', a list of them")
        if "texts" in given and not self.texts:
            raise ValueError("'texts' is an empty list; give at least one text")
        if "domains" in given:
            if "text" in given or self.domain is not None:
                raise ValueError("'domains' goes with 'texts' and without 'domain'; for one domain use 'domain'")
            if len(self.domains) != len(self.texts):
                raise ValueError(
                    f"'domains' must hold one name (or null) for each text: there are {len(self.texts)} texts and "
                    f"{len(self.domains)} domains"
                )
        return self

    @property
    def is_one(self) -> bool:
        """Return whether a single text was given."""
        return "text" in self.model_fields_set

    def question(self) -> Question:
        """Return what is asked of the model."""
        texts = [self.text] if self.is_one else self.texts
        return Question(texts, self.domains or [self.domain] * len(texts), self.unknown_domain)


class ExplainRequest(BaseModel):
    """A text whose prediction is to be explained."""

    model_config = ConfigDict(extra="forbid")

    text: Text
    domain: Domain = None
    target: Annotated[Name | None, Field(description="The class to explain; by default the prediction.")] = None
    unknown_domain: OnUnknown = "shared"


class Prediction(BaseModel):
    """The prediction for one text."""

    label: Annotated[str, Field(description="The most probable class.")]
    confidence: Annotated[float, Field(description="Its probability.")]
    probabilities: Annotated[dict[str, float], Field(description="Probability of each class.")]
    domain: Annotated[str | None, Field(description="The domain used for the prediction; null if unknown.")]
    warnings: Annotated[list[str] | None, Field(description="Warnings; absent if there are none.")] = None


class PredictResponse(BaseModel):
    """Predictions in the order of the texts."""

    predictions: list[Prediction]


class Word(BaseModel):
    """A word's contribution to the log-odds of the target; [start:end] is its position in code points."""

    text: str
    start: int
    end: int
    shared: float
    private: float
    total: float


class ExplainResponse(BaseModel):
    """A prediction and the contributions of its words."""

    text: str
    domain: str | None
    classes: list[str]
    probabilities: list[float]
    target: str
    words: list[Word]
    n_words: Annotated[int, Field(description="Words in the text; of a long text only the first are explained.")]
    warnings: list[str] | None = None


class Scores(BaseModel):
    """Scores on held-out rows."""

    accuracy: float
    macro_f1: float
    rows: int


class DomainFacts(BaseModel):
    """A domain of the training data."""

    name: str
    labelled: Annotated[bool, Field(description="Whether it had labels in training.")]
    test: Annotated[Scores | None, Field(description="On the test rows; null if there were none.")]


class ModelFacts(BaseModel):
    """The model being served."""

    name: str
    method: str
    version: Annotated[str, Field(description="Of multidomain.")]
    classes: list[str]
    domains: list[DomainFacts]
    answers_without_domain: Annotated[
        bool, Field(description="Whether it predicts for texts of no known domain; if not, they are refused with 422.")
    ]
    accuracy: Annotated[float | None, Field(description="Mean of the domains' test accuracies, if measured.")]
    limits: Annotated[dict[str, int], Field(description="Limits of one request.")]


class Health(BaseModel):
    """The server is up."""

    status: Literal["ok"]


class Error(BaseModel):
    """What went wrong: a machine-readable code, and a message for people."""

    code: str
    message: str
    details: Any = None


class ErrorResponse(BaseModel):
    """Every error has this shape."""

    error: Error


def prediction_json(answer: Answer) -> dict[str, Any]:
    """Return a `Prediction`, built by hand: a request may hold a thousand."""
    probabilities = answer.probabilities.tolist()
    best = int(answer.probabilities.argmax())
    shown: dict[str, Any] = {
        "label": str(answer.classes[best]),
        "confidence": probabilities[best],
        "probabilities": dict(zip(map(str, answer.classes), probabilities, strict=True)),
        "domain": answer.domain,
    }
    if answer.warnings:
        shown["warnings"] = list(answer.warnings)
    return shown
