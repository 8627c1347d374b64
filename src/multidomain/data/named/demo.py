"""A small corpus from our own grammar, for demonstrations and tests with no network.

Three kinds of words carry the classes: words that mean the same everywhere, words of one domain, and words
whose polarity flips from domain to domain (a light shoe is praised, a light pan is not). So a model that
shares everything is wrong on the last kind, and one that shares nothing wastes the first.
"""

from __future__ import annotations

import numpy as np

from multidomain.data.corpus import Corpus, object_array

DOMAINS = ("books", "kitchen", "electronics", "shoes")
CLASSES = ("negative", "positive")
_ROWS_PER_DOMAIN = 300
# How often the clause that carries the class is of each kind.
_KINDS, _KIND_SHARES = ("shared", "flipping", "domain"), (0.45, 0.4, 0.15)


def _words(text: str, separator: str | None = None) -> list[str]:
    return text.split(separator)


_NOUNS = {
    "books": _words("book novel story thriller memoir paperback sequel biography"),
    "kitchen": _words("pan knife kettle blender pot toaster skillet grill"),
    "electronics": _words("phone laptop speaker camera tablet charger monitor headset"),
    "shoes": _words("sneaker boot sandal loafer trainer heel slipper moccasin"),
}
_OWNERS = _words("my sister|my father|a colleague|my neighbour|a friend|my son|my aunt|our teacher", "|")
_TIMES = _words("last week|in spring|for christmas|two months ago|on sale|on a whim|for a birthday", "|")

_SHARED = {
    "positive": _words(
        "excellent wonderful superb delightful brilliant terrific splendid fantastic marvellous outstanding "
        "impressive lovely flawless charming magnificent fabulous admirable exceptional satisfying stellar "
        "perfect amazing remarkable gorgeous first-rate pleasing commendable phenomenal praiseworthy glorious"
    ),
    "negative": _words(
        "terrible awful dreadful horrible disappointing miserable pathetic lousy atrocious abysmal useless "
        "shoddy appalling worthless annoying mediocre frustrating regrettable inferior dismal rubbish "
        "ghastly defective irritating deplorable pitiful unacceptable woeful second-rate disastrous"
    ),
}
_DOMAIN = {
    "books": {
        "positive": _words("gripping witty insightful moving well-researched lyrical"),
        "negative": _words("rambling cliched implausible preachy humourless plagiarised"),
    },
    "kitchen": {
        "positive": _words("non-stick rustproof dishwasher-safe even-heating drip-free well-balanced"),
        "negative": _words("rusty scorched dented leaking warped chipped"),
    },
    "electronics": {
        "positive": _words("responsive high-resolution wireless energy-saving crisp-sounding upgradable"),
        "negative": _words("glitchy laggy overheating staticky pixelated unbootable"),
    },
    "shoes": {
        "positive": _words("breathable waterproof cushioned well-stitched slip-resistant ankle-friendly"),
        "negative": _words("blistering squeaky unglued pinching frayed smelly"),
    },
}
# Word -> the domains in which it is praise; in the others it is blame. Two and two, so that pooled over the
# domains the word says nothing.
_FLIPPING = {
    "light": ("electronics", "shoes"),
    "heavy": ("books", "kitchen"),
    "soft": ("electronics", "shoes"),
    "hard": ("books", "kitchen"),
    "hot": ("books", "kitchen"),
    "cool": ("electronics", "shoes"),
    "sharp": ("kitchen", "electronics"),
    "flat": ("electronics", "shoes"),
    "long": ("books", "electronics"),
    "short": ("kitchen", "shoes"),
    "fast": ("books", "shoes"),
    "slow": ("kitchen", "electronics"),
}


def load_demo(seed: int = 0) -> Corpus:
    """Return the corpus of a seed: 4 domains, two classes, 300 different texts a domain, all labelled.

    Parameters
    ----------
    seed
        Decides every word.
    """
    rng = np.random.default_rng(seed)
    texts: list[str] = []
    labels: list[str] = []
    domains: list[str] = []
    known: set[str] = set()
    for domain in DOMAINS:
        for i in range(_ROWS_PER_DOMAIN):
            label = CLASSES[i % len(CLASSES)]
            text = _review(domain, label, rng)
            while text in known:
                text = _review(domain, label, rng)
            known.add(text)
            texts.append(text)
            labels.append(label)
            domains.append(domain)
    return Corpus(object_array(texts), object_array(labels), object_array(domains), name="demo")


def _review(domain: str, label: str, rng: np.random.Generator) -> str:
    noun, other = rng.choice(_NOUNS[domain], size=2, replace=False)
    opening = _pick(
        [
            f"I bought this {noun} {_pick(_TIMES, rng)}.",
            f"{_pick(_OWNERS, rng).capitalize()} gave me this {noun} {_pick(_TIMES, rng)}.",
            f"This {noun} replaces the {other} of {_pick(_OWNERS, rng)}.",
            f"I compared it with the {other} that {_pick(_OWNERS, rng)} has.",
        ],
        rng,
    )
    word = _word(domain, label, str(rng.choice(_KINDS, p=_KIND_SHARES)), rng)
    verdict = _pick(
        [
            f"It is {word}.",
            f"The {noun} turned out {word}.",
            f"What I noticed first: {word}.",
            f"In daily use it proved {word}, and {_pick(_OWNERS, rng)} says the same.",
        ],
        rng,
    )
    return f"{opening} {verdict}"


def _word(domain: str, label: str, kind: str, rng: np.random.Generator) -> str:
    if kind == "shared":
        return _pick(_SHARED[label], rng)
    if kind == "domain":
        return _pick(_DOMAIN[domain][label], rng)
    wanted = label == "positive"
    return _pick([word for word, praised in _FLIPPING.items() if (domain in praised) == wanted], rng)


def _pick(options: list[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]
