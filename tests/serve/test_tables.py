"""CSV over HTTP is what `multidomain predict` writes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from multidomain.data.corpus import Corpus
from multidomain.model.model import Model

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def table(corpus: Corpus) -> bytes:
    """A table longer than the parts in which it is predicted, with what tables have in them."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["id", "review", "domain", "remark"])
    rows = list(zip(corpus.documents, corpus.domains, strict=True)) * 4
    writer.writerows([i, text, domain, 'a "quote",\na line'] for i, (text, domain) in enumerate(rows))
    writer.writerow([-1, "", "books", "no text"])
    writer.writerow([-2, "käse <script>", "cars", ""])
    return file.getvalue().encode()


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ([], {}),
        (["--domain", "shoes", "--probabilities"], {"domain": "shoes", "probabilities": "true"}),
        (["--abstain", "0.8"], {"abstain": "0.8"}),
    ],
)
def test_a_table_comes_back_byte_for_byte_as_the_command_writes_it(
    client: httpx.Client,
    model_folder: Path,
    tmp_path: Path,
    run: Run,
    table: bytes,
    options: list[str],
    query: dict[str, str],
) -> None:
    (tmp_path / "in.csv").write_bytes(table)
    code, _, err = run("predict", model_folder, tmp_path / "in.csv", "-o", tmp_path / "out.csv", *options)
    assert code == 0, err
    response = client.post("/v1/predict/csv", params=query, content=table, headers={"Content-Type": "text/csv"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.content == (tmp_path / "out.csv").read_bytes()
    assert response.headers["multidomain-rows"] == "4802"
    assert response.headers["multidomain-rows-without-text"] == "1"
    empty = [row for row in csv.DictReader(io.StringIO(response.text)) if not row["prediction"] and row["review"]]
    assert int(response.headers.get("multidomain-rows-abstained", 0)) == len(empty)
    assert bool(empty) == ("abstain" in query)


def as_csv(rows: list[tuple[str, str]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file).writerows([("text", "domain"), *rows])
    return file.getvalue().encode()


def test_each_row_gets_its_own_prediction(client: httpx.Client, offline: Model, corpus: Corpus) -> None:
    """In tables of several chunks that are predicted at the same time, compared with each text predicted alone."""
    texts = dict.fromkeys(zip(corpus.documents, corpus.domains, strict=True))
    alone = {row: offline.predict_proba([row[0]], [row[1]])[0] for row in list(texts)[::4]}
    assert len({round(float(p.max()), 5) for p in alone.values()}) > 100, "the confidence tells which text it is of"
    orders = [np.random.default_rng(seed).integers(len(alone), size=5_000) for seed in (1, 2)]
    tables = [[list(alone)[i] for i in order] for order in orders]
    with ThreadPoolExecutor(2) as pool:
        responses = list(pool.map(lambda rows: client.post("/v1/predict/csv", content=as_csv(rows)), tables))
    for rows, response in zip(tables, responses, strict=True):
        assert response.status_code == 200, response.text
        found = list(csv.DictReader(io.StringIO(response.text, newline="")))
        assert [(row["text"], row["domain"]) for row in found] == rows
        assert [row["prediction"] for row in found] == [offline.classes[alone[row].argmax()] for row in rows]
        confidence = [float(row["confidence"]) for row in found]
        assert confidence == pytest.approx([float(alone[row].max()) for row in rows], abs=2e-6)


def test_cells_come_back_as_they_were(client: httpx.Client) -> None:
    rows = [("a\rb", "books"), ("c\r\nd\ne", "\r"), ('"=1+1", he said', " "), ("=1+1", "+1"), ("\u2028 \0 é", "\t")]
    response = client.post("/v1/predict/csv", content=as_csv(rows))
    assert response.status_code == 200, response.text
    found = list(csv.DictReader(io.StringIO(response.content.decode(), newline="")))
    assert [(row["text"], row["domain"]) for row in found] == rows


def test_warnings_of_the_model_are_not_lost(client: httpx.Client) -> None:
    response = client.post("/v1/predict/csv", content="text,domain\nfine,cars\nwell,Books\ngood,cars\n")
    said = json.loads(response.headers["multidomain-warnings"])
    assert [message[:14] for message in said] == ["Domain 'cars' ", "Domain 'Books'"]
    response = client.post("/v1/predict/csv", content="text,domain\nfine,books\n")
    assert "multidomain-warnings" not in response.headers


def test_a_long_cell_makes_no_long_header(client: httpx.Client) -> None:
    response = client.post("/v1/predict/csv", content=f"text,domain\nfine,{'x' * 100_000}\nwell,cars\n")
    assert response.status_code == 200
    long, short = json.loads(response.headers["multidomain-warnings"])
    assert long == f"Domain '{'x' * 189}..."
    assert short.endswith("Known domains: 'books', 'kitchen', 'electronics', 'shoes'.")


@pytest.mark.parametrize("name", ["cars", "\N{CHEESE WEDGE}" * 300])
def test_many_warnings_make_no_long_header_and_those_left_out_are_counted(client: httpx.Client, name: str) -> None:
    rows = "".join(f"fine,{i} {name}\n" for i in range(100))
    header = client.post("/v1/predict/csv", content=f"text,domain\n{rows}").headers["multidomain-warnings"]
    assert 1_500 < len(header) < 4_100
    *shown, last = json.loads(header)
    assert shown[0].startswith("Domain '0 ")
    assert last == f"And {100 - len(shown)} more warnings."


def test_columns_and_encoding_can_be_said(client: httpx.Client) -> None:
    content = "was,wo\nKäse,books\n".encode("cp1252")
    query = {"text_column": "was", "domain_column": "wo", "encoding": "cp1252"}
    response = client.post("/v1/predict/csv", params=query, content=content)
    assert response.status_code == 200, response.text
    header, row = response.text.splitlines()
    assert header == "was,wo,prediction,confidence"
    assert row.startswith("Käse,books,")


@pytest.mark.parametrize(
    ("content", "query", "message"),
    [
        (b"", {}, "body.csv is empty"),
        (b"a,b\n1,2\n", {}, "body.csv has no column that looks like the text. Its columns: 'a', 'b'."),
        (b"text\n", {}, "no rows"),
        (b"text,domain\nfine\n", {}, "body.csv, row 2 has 1 cell, expected 2"),
        (b'text\n"fine\n', {}, "a double quote opens a cell and is never closed"),
        (b"text\n\xff\n", {}, "byte 0xff is not utf-8"),
        (b"text\nfine\n", {"encoding": "utf-16"}, "body.csv, after row 0: the bytes are not utf-16"),
        (b"text,prediction\na,b\n", {}, "has a column 'prediction' already"),
        (b"text,domain\nfine,cars\n", {"unknown_domain": "error"}, "Domain 'cars' was not in training"),
        (b"text\nfine\n", {"text_column": "txt"}, "has no column 'txt'"),
    ],
)
def test_faults_of_a_table_are_told(client: httpx.Client, content: bytes, query: dict[str, str], message: str) -> None:
    response = client.post("/v1/predict/csv", params=query, content=content)
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["code"] == "invalid_table"
    assert message in error["message"]
    details = error["details"]
    assert set(details) == {"problem", "hint", "settings"}
    assert message in details["problem"]
    assert all(f"{{{name}=" in details["hint"] for name in details["settings"])
    assert "{" not in error["message"] and "--" not in error["message"]


@pytest.mark.parametrize(
    ("content", "settings", "worded"),
    [
        (b"a,b\n1,2\n", {"text_column": "NAME"}, "Name the right one with 'text_column'."),
        (b"text\n\xff\n", {"encoding": "cp1252"}, "name it, for example 'encoding=cp1252'."),
        (b"text,prediction\na,b\n", {}, "Rename or remove it."),
    ],
)
def test_hints_name_parameters_and_details_say_which(
    client: httpx.Client, content: bytes, settings: dict[str, str], worded: str
) -> None:
    error = client.post("/v1/predict/csv", content=content).json()["error"]
    assert error["message"].endswith(worded)
    assert error["message"].startswith(error["details"]["problem"])
    assert error["details"]["settings"] == settings


def test_a_form_is_told_to_be_the_file_itself(client: httpx.Client) -> None:
    response = client.post("/v1/predict/csv", files={"file": b"text\nfine\n"})
    assert response.status_code == 422
    assert "--data-binary" in response.json()["error"]["message"]


def test_single_texts_are_answered_while_a_large_table_is_predicted(client: httpx.Client, table: bytes) -> None:
    header, _, rows = table.partition(b"\n")
    large = header + b"\n" + rows * 4
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.post, "/v1/predict/csv", content=large)
        while "multidomain_requests_in_flight 2" not in client.get("/metrics").text:
            assert not future.done()
        answered = 0
        while not future.done():
            assert client.post("/v1/predict", json={"text": "fine"}).status_code == 200
            answered += not future.done()
    assert future.result().status_code == 200
    assert answered >= 3
