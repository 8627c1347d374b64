"""A corpus of another package."""

from __future__ import annotations

from multidomain import Corpus, corpus_from_rows
from multidomain.data.named.registry import register


@register("weather", "Remarks on the weather in two towns", source="made up")
def load_weather() -> Corpus:
    """Return 40 remarks of each town."""
    good, bad = ("sunny", "warm", "clear", "mild"), ("rainy", "cold", "foggy", "windy")
    texts, labels, domains = [], [], []
    for town in ("york", "bath"):
        for i in range(40):
            words = (good, bad)[i % 2]
            texts.append(f"{words[i % 4]} and {words[(i // 4) % 4]} in {town}, day {i}")
            labels.append("good" if i % 2 == 0 else "bad")
            domains.append(town)
    return corpus_from_rows(texts, labels, domains, name="weather")
