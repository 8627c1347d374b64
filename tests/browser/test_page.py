"""The page as a person uses it, in a real browser."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import httpx
import pytest
from serving import TOKEN, Server, serving

pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install 'multidomain[browser]'")
from playwright.sync_api import Browser, Page, expect

pytestmark = pytest.mark.browser

TEXT = "My sister gave me this pan in spring. It is heavy 😀, and simply superb."


# Texts whose colour is too near to that of their ground, which may be several grounds over each other.
CONTRASTS_BELOW = """(least) => {
  const parse = (color) => {
    const [red, green, blue, alpha = 1] = color.match(/[\\d.]+/g).map(Number);
    return [red, green, blue, alpha];
  };
  const over = (top, below) => below.map((value, i) => top[i] * top[3] + value * (1 - top[3]));
  const ground = (element) => {
    const below = element.parentElement ? ground(element.parentElement) : [255, 255, 255];
    return over(parse(getComputedStyle(element).backgroundColor), below);
  };
  const linear = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) =>
    0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  const holdsText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  return [...document.querySelectorAll("body *")]
    .filter((element) => element.getClientRects().length && holdsText(element))
    .flatMap((element) => {
      const below = ground(element);
      const [one, other] = [light(over(parse(getComputedStyle(element).color), below)), light(below)];
      const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
      return contrast < least ? [`${element.textContent.trim().slice(0, 30)}: ${contrast.toFixed(2)}`] : [];
    });
}"""


def predict(page: Page, text: str, domain: str = "") -> None:
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_label("Domain", exact=True).select_option(domain)
    page.get_by_role("button", name="Predict").click()


def shown_percent(p: float) -> str:
    return f"{100 * p:.1f}\u202f%"


def test_a_text_gets_its_answer_with_bars_and_coloured_words(page: Page, server: Server) -> None:
    predict(page, TEXT, "kitchen")
    body = {"text": TEXT, "domain": "kitchen"}
    answer = httpx.post(f"{server.url}/v1/predict", json=body).json()["predictions"][0]
    words = httpx.post(f"{server.url}/v1/explain", json=body).json()["words"]
    expect(page.locator("#label")).to_have_text(answer["label"])
    expect(page.locator("#confidence")).to_have_text(shown_percent(answer["confidence"]))
    for p in answer["probabilities"].values():
        expect(page.locator("#bars")).to_contain_text(shown_percent(p))
    expect(page.locator("#words .word")).to_have_text([word["text"] for word in words])
    assert page.locator("#words").inner_text() == TEXT
    strongest = max(words, key=lambda word: abs(word["total"]))
    shown = page.locator("#words .word", has_text=strongest["text"]).first
    side = "speaks-for" if strongest["total"] > 0 else "speaks-against"
    expect(shown).to_have_class(f"word {side}")
    assert f"{abs(strongest['total']):.2f}" in (shown.get_attribute("title") or "")
    page.get_by_text("Show as a table").click()
    expect(page.locator("#words-table tbody tr")).to_have_count(len(words))


def test_words_by_shared_and_private_features_and_for_the_other_class(page: Page) -> None:
    predict(page, TEXT, "shoes")  # had no labels, so that private features add nothing
    expect(page.locator("#words .speaks-for, #words .speaks-against").first).to_be_visible()
    page.get_by_label("Private").check(force=True)
    expect(page.locator("#words .speaks-for, #words .speaks-against")).to_have_count(0)
    expect(page.locator("#words-note")).to_contain_text("Private features contribute nothing here")
    page.get_by_label("Shared").check(force=True)
    supporting = page.locator("#words .speaks-for").all_inner_texts()
    other = "negative" if page.locator("#label").inner_text() == "positive" else "positive"
    page.get_by_label("for or against").select_option(other)
    expect(page.locator("#words .speaks-against")).to_have_text(supporting)


def test_an_unknown_domain_is_answered_from_shared_features(page: Page) -> None:
    predict(page, TEXT)
    expect(page.locator("#answer-domain")).to_have_text("Domain unknown: shared features only")


def test_all_domains_are_compared_at_once(page: Page, server: Server) -> None:
    page.get_by_label("Text", exact=True).fill("It is heavy.")
    page.get_by_role("button", name="Compare domains").click()
    domains = ["books", "kitchen", "electronics", "shoes", None]
    body = {"texts": ["It is heavy."] * 5, "domains": domains}
    answers = httpx.post(f"{server.url}/v1/predict", json=body).json()["predictions"]
    rows = page.locator("#comparison-table tbody tr")
    expect(rows).to_have_count(5)
    for i, (domain, answer) in enumerate(zip(domains, answers, strict=True)):
        expect(rows.nth(i)).to_contain_text(domain or "Unknown domain")
        expect(rows.nth(i)).to_contain_text(answer["label"])
        expect(rows.nth(i)).to_contain_text(shown_percent(answer["confidence"]))
        assert ("no labels" in rows.nth(i).inner_text()) == (domain == "shoes")


def test_a_model_that_needs_a_domain_is_never_asked_without_one(browser: Browser, domain_specific_folder: Path) -> None:
    domains = ["books", "kitchen", "electronics", "shoes"]
    with serving(domain_specific_folder) as server:
        page = browser.new_page()
        page.goto(server.url)
        expect(page.locator("#domain option")).to_have_text(domains)
        expect(page.locator("#file-domain option")).to_have_text(["From the domain column", *domains])
        page.get_by_label("Text", exact=True).fill(TEXT)
        page.get_by_role("button", name="Predict").click()
        expect(page.locator("#answer-domain")).to_have_text("Domain: books")
        expect(page.locator("#words .word").first).to_be_visible()
        page.get_by_role("button", name="Compare domains").click()
        expect(page.locator("#comparison-table tbody th")).to_have_text(domains)
        expect(page.locator("#comparison-said")).to_contain_text("4 domains: ")
        expect(page.locator("#text-message")).to_be_empty()
        page.close()


def test_who_asks_before_the_token_is_given_gets_a_domain_that_the_model_needs(
    browser: Browser, domain_specific_folder: Path
) -> None:
    with serving(domain_specific_folder, token=TOKEN) as server:
        page = browser.new_page()
        page.goto(server.url)
        expect(page.get_by_label("This server requires an access token")).to_be_focused()
        predict(page, TEXT)
        page.get_by_label("This server requires an access token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#answer-domain")).to_have_text("Domain: books")
        page.close()


def test_a_csv_comes_back_with_predictions(page: Page, server: Server, tmp_path: Path) -> None:
    content = 'id,text,domain\n1,"It is heavy, ""really"".\nYes",kitchen\n2,<b>awful</b>,cars\n3,,books\n' + "".join(
        f"{i},fine,books\n" for i in range(4, 20)
    )
    (tmp_path / "my reviews.csv").write_text(content)
    with page.expect_file_chooser() as chooser:
        page.get_by_text("Choose a CSV").click()
    chooser.value.set_files(tmp_path / "my reviews.csv")
    expect(page.locator("#file-said")).to_have_text("my reviews.csv: 19 rows, 18 predictions.")
    expect(page.locator("#file-notes li")).to_have_text(
        [
            "1 row without text got no prediction.",
            "Domain 'cars' was not in training: answered from the shared features "
            "alone. Known domains: 'books', 'kitchen', 'electronics', 'shoes'.",
        ]
    )
    with page.expect_download() as download:
        page.get_by_role("link", name="Download my reviews-predicted.csv").click()
    assert download.value.suggested_filename == "my reviews-predicted.csv"
    got = Path(download.value.path()).read_text()
    assert got == httpx.post(f"{server.url}/v1/predict/csv", content=content.encode()).text
    header, first, second, *_ = csv.reader(io.StringIO(got))
    preview = page.locator("#preview")
    expect(preview.locator("thead th")).to_have_text([*header[-2:], *header[:-2]])
    expect(preview.locator("tbody tr")).to_have_count(5)
    expect(preview.locator("tbody tr").nth(0).locator("td")).to_have_text(
        [*first[-2:], *first[:-2]], use_inner_text=False
    )
    expect(preview.locator("tbody tr").nth(1).locator("td").nth(3)).to_have_text(second[1])


def test_a_csv_can_be_dropped(page: Page) -> None:
    transfer = page.evaluate_handle(
        "() => { const data = new DataTransfer();"
        " data.items.add(new File(['text\\nfine\\n'], 'dropped.csv', { type: 'text/csv' })); return data; }"
    )
    page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})
    expect(page.locator("#file-said")).to_have_text("dropped.csv: 1 row, 1 prediction.")


def test_a_csv_that_cannot_be_used_says_why_beside_the_control(page: Page, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("was,wo\nfine,books\n")
    page.locator("#file").set_input_files(tmp_path / "bad.csv")
    expect(page.locator("#file-message")).to_have_text(
        "bad.csv has no column that looks like the text. Its columns: 'was', 'wo'. Name the right one with the field "
        "“Text column”."
    )
    page.get_by_label("Text column").fill("was")
    page.locator("#file").set_input_files(tmp_path / "bad.csv")
    expect(page.locator("#file-said")).to_have_text("bad.csv: 1 row, 1 prediction.")
    expect(page.locator("#file-message")).to_be_empty()


def test_markup_in_a_text_is_shown_as_text(page: Page, tmp_path: Path) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    text = "<script>alert(1)</script> superb <img src=x onerror=alert(2)>"
    predict(page, text, "books")
    expect(page.locator("#words .word").first).to_be_visible()
    assert page.locator("#words").inner_text() == text
    (tmp_path / "<img src=x onerror=alert(3)>.csv").write_text(f"text\n{text}\n")
    page.locator("#file").set_input_files(tmp_path / "<img src=x onerror=alert(3)>.csv")
    expect(page.locator("#preview tbody td").nth(2)).to_have_text(text)
    assert page.locator("main script, main img").count() == 0
    page.wait_for_timeout(200)
    assert dialogs == []


@pytest.mark.parametrize("text", ["", "  \n "])
def test_an_empty_text_is_told_beside_the_field(page: Page, text: str) -> None:
    predict(page, text)
    expect(page.locator("#text-message")).to_have_text("Enter a text first.")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("fine")
    expect(page.locator("#text-message")).to_be_empty()


def test_a_text_that_is_too_long_is_told_and_one_too_long_to_explain_is_still_answered(page: Page) -> None:
    page.get_by_label("Text", exact=True).fill("a " * 50_001)
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#text-message")).to_have_text("The text is longer than 100,000 characters.")
    predict(page, "superb " * 2_000, "books")
    expect(page.locator("#answer-domain")).to_have_text("Domain: books")
    expect(page.locator("#words-message")).to_contain_text(
        "has 14,000 characters, and at most 10,000 are accepted here"
    )


def test_a_server_that_stops_and_comes_back(browser: Browser, model_folder: Path) -> None:
    page = browser.new_page()
    with serving(model_folder) as server:
        port = server.port
        page.goto(server.url)
        predict(page, TEXT, "books")
        expect(page.locator("#words .word").first).to_be_visible()
    predict(page, "It is awful.", "books")
    expect(page.get_by_role("alert").filter(has_text="The server does not respond.")).to_be_visible()
    expect(page.get_by_label("Text", exact=True)).to_have_value("It is awful.")
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator("#offline")).to_be_visible()
    with serving(model_folder, port=port):
        expect(page.locator("#offline")).to_be_hidden(timeout=10_000)
        expect(page.locator("#words")).to_have_text("It is awful.")  # what was asked meanwhile is answered
        page.close()


def test_a_token_is_asked_for_and_kept_for_the_session(browser: Browser, model_folder: Path) -> None:
    with serving(model_folder, token=TOKEN) as server:
        page = browser.new_page()
        page.goto(server.url)
        field = page.get_by_label("This server requires an access token")
        expect(field).to_be_focused()
        field.fill("wrong")
        page.keyboard.press("Enter")
        expect(page.locator("#token-message")).to_have_text("The server does not accept this token.")
        predict(page, "It is awful.")
        expect(page.locator("#answer-full")).to_be_hidden()
        field.fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#token-form")).to_be_hidden()
        expect(page.locator("#words")).to_have_text("It is awful.")  # what was asked before is answered now
        page.reload()
        expect(page.locator("#model-line")).to_contain_text("4 domains")
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        page.close()


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_window_needs_no_scrolling_sideways(page: Page, tmp_path: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 740})
    predict(page, "superb " + "x" * 200 + " " + TEXT, "kitchen")
    page.get_by_role("button", name="Compare domains").click()
    (tmp_path / "t.csv").write_text("text,a,b,c,d,e,f,g\n" + ",".join(["w" * 60] * 8) + "\n")
    page.locator("#file").set_input_files(tmp_path / "t.csv")
    expect(page.locator("#preview tbody tr")).to_have_count(1)
    expect(page.locator("#comparison-table tbody tr")).to_have_count(5)
    page.get_by_text("About the model").click()
    expect(page.locator("#facts-table tbody tr")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_everything_can_be_done_with_the_keyboard_alone(page: Page, tmp_path: Path) -> None:
    def focused() -> str:
        return page.evaluate("document.activeElement.id || document.activeElement.tagName")

    def tab_to(name: str, most: int = 25) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            if focused() == name:
                outline = "getComputedStyle(document.activeElement.matches('.hidden') ? document.activeElement"
                outline += ".nextElementSibling.querySelector('.button') : document.activeElement).outlineStyle"
                assert page.evaluate(outline) == "solid", f"nothing shows that {name} has the focus"
                return
        pytest.fail(f"{name} is not reached")

    tab_to("text")
    page.keyboard.type("It is superb.")
    tab_to("domain")
    page.keyboard.type("kit")
    expect(page.locator("#domain")).to_have_value("kitchen")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answer-domain")).to_have_text("Domain: kitchen")
    expect(page.locator("#words .word").first).to_be_visible()
    tab_to("compare")
    page.keyboard.press("Enter")
    expect(page.locator("#comparison-table tbody tr")).to_have_count(5)
    tab_to("file")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    (tmp_path / "t.csv").write_text("text\nfine\n")
    chooser.value.set_files(tmp_path / "t.csv")
    expect(page.locator("#file-said")).to_have_text("t.csv: 1 row, 1 prediction.")
    tab_to("download")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page: Page, scheme: str) -> None:
    """Contrast of at least 4.5 (WCAG AA), of the words with the strongest colours too."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    predict(page, TEXT, "kitchen")
    page.get_by_role("button", name="Compare domains").click()
    expect(page.locator("#comparison-table tbody tr")).to_have_count(5)
    expect(page.locator("#words .word").first).to_be_visible()
    page.evaluate("document.getElementById('offline').hidden = false")
    page.evaluate("document.getElementById('text-message').textContent = 'A fault.'")
    poor = page.evaluate(CONTRASTS_BELOW, 4.5)
    assert poor == []
