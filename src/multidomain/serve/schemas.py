"""Requests and answers of the API, as its OpenAPI document shows them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

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
        description="Name of a domain. null: the text is answered from the shared features alone, or refused if the "
        "model has none (`answers_without_domain` of /v1/model)."
    ),
]
OnUnknown = Annotated[
    Literal["shared", "error"],
    Field(
        description="What to do with a domain that was not in training: answer from the shared features, with a "
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
    """A text whose answer is to be explained."""

    model_config = ConfigDict(extra="forbid")

    text: Text
    domain: Domain = None
    target: Annotated[
        Name | None, Field(description="The class that words speak for or against; by default the answer.")
    ] = None
    unknown_domain: OnUnknown = "shared"


class Prediction(BaseModel):
    """The answer to one text."""

    label: Annotated[str, Field(description="The most probable class.")]
    confidence: Annotated[float, Field(description="Its probability.")]
    probabilities: Annotated[dict[str, float], Field(description="Probability of each class.")]
    domain: Annotated[
        str | None, Field(description="The domain as the model has it; null if it was answered as unknown.")
    ]
    warnings: Annotated[list[str] | None, Field(description="What the model had to say; not there if nothing.")] = None


class PredictResponse(BaseModel):
    """Answers in the order of the texts."""

    predictions: list[Prediction]


class Word(BaseModel):
    """What a word adds to the log-odds of the target; it stands at [start:end] of the text, in code points."""

    text: str
    start: int
    end: int
    shared: float
    private: float
    total: float


class ExplainResponse(BaseModel):
    """An answer and what the words have to do with it."""

    text: str
    domain: str | None
    classes: list[str]
    probabilities: list[float]
    target: str
    words: list[Word]
    n_pieces: Annotated[int, Field(description="Words in the text; only the first are explained if it is long.")]
    warnings: list[str] | None = None


class Scores(BaseModel):
    """How good the model was on held-out rows."""

    accuracy: float
    macro_f1: float
    rows: int


class DomainFacts(BaseModel):
    """A domain of the training data."""

    name: str
    labelled: Annotated[bool, Field(description="Whether it had labels in training.")]
    test: Annotated[Scores | None, Field(description="On the test rows; null if there were none.")]


class ModelFacts(BaseModel):
    """The model that answers."""

    name: str
    method: str
    version: Annotated[str, Field(description="Of multidomain.")]
    classes: list[str]
    domains: list[DomainFacts]
    answers_without_domain: Annotated[
        bool, Field(description="Whether texts of no known domain are answered; if not, they are refused with 422.")
    ]
    accuracy: Annotated[float | None, Field(description="Mean of the domains' test accuracies, if measured.")]
    limits: Annotated[dict[str, int], Field(description="What one request may ask for.")]


class Health(BaseModel):
    """The server answers."""

    status: Literal["ok"]


class Error(BaseModel):
    """What went wrong: a word for programs, a message for people."""

    code: str
    message: str
    details: Any = None


class ErrorResponse(BaseModel):
    """Every error has this shape."""

    error: Error


def prediction_json(answer: Answer, classes: tuple[Any, ...]) -> dict[str, Any]:
    """Return a `Prediction`, built by hand: a request may hold a thousand."""
    probabilities = answer.probabilities.tolist()
    best = int(answer.probabilities.argmax())
    shown: dict[str, Any] = {
        "label": str(classes[best]),
        "confidence": probabilities[best],
        "probabilities": dict(zip(map(str, classes), probabilities, strict=True)),
        "domain": answer.domain,
    }
    if answer.warnings:
        shown["warnings"] = list(answer.warnings)
    return shown
