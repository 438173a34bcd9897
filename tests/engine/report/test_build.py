"""The page of a report: complete, true to its files, and at rest: it loads and runs nothing."""

import base64
import html.parser
import shutil
import subprocess

import pytest

from engine.report import build
from engine.report.build import build_report
from engine.results import read_strategy
from search_spaces.errors import InputError
from tests.engine.report import runs

VOID = {"meta", "img", "br"}
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "section", "div", "nav", "ul", "li", "a", "h1", "h2", "h3", "p", "dl", "dt", "dd",
    "figure", "img", "figcaption", "table", "caption", "thead", "tbody", "tr", "th", "td", "pre", "code", "footer",
}


class Page(html.parser.HTMLParser):
    """The tags of a page, in order, and its text; unbalanced tags are an error."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data.strip())

    @property
    def text(self):
        return " ".join(filter(None, self.texts))

    def found(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(report):
    return Page(report.page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(report):
    return page_of(report)


@pytest.fixture(scope="module")
def unfinished_report(unfinished, tmp_path_factory):
    return build_report(unfinished, out=tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def fixed_size_report(fixed_size, tmp_path_factory):
    return build_report(fixed_size, out=tmp_path_factory.mktemp("report"))


def test_nothing_is_loaded_or_run(report, unfinished_report, fixed_size_report):
    for one in (report, unfinished_report, fixed_size_report):
        text, page = one.page.read_text(encoding="utf-8"), page_of(one)
        assert "http://" not in text and "https://" not in text and "url(" not in text and "@import" not in text
        assert {tag for tag, _ in page.tags} <= ALLOWED
        assert all(link["href"].startswith("#") for link in page.found("a"))
        assert not any(name.startswith("on") or name == "srcset" for _, attributes in page.tags for name in attributes)
        assert any("default-src 'none'" in meta.get("content", "") for meta in page.found("meta"))


def test_every_image_is_in_the_page_and_beside_it_and_in_words(report, page):
    images = page.found("img")
    assert [path.name for path in report.figures] == ["rmse_by_bandwidth.png", "search_history.png", "coefficients.png", "privacy.png"]
    embedded = {base64.b64decode(image["src"].removeprefix("data:image/png;base64,"), validate=True) for image in images}
    assert embedded == {path.read_bytes() for path in report.figures}
    assert all(len(image["alt"]) > 40 for image in images)


def test_links_within_the_page_have_their_place(page):
    anchors = {attributes.get("id") for _, attributes in page.tags}
    assert page.found("a") and all(link["href"].removeprefix("#") in anchors for link in page.found("a"))


def test_the_numbers_are_those_of_the_strategy_file(page, finished):
    document = read_strategy(finished / "strategy.json")
    for value in (document["sigma"], document["rmse"]):
        assert f"{value:.6g}" in page.texts and repr(value) in page.texts
    assert document["scheme"] in page.texts and "(2, 0.01)-DP" in page.texts and "certified" in page.text and "add/remove" in page.texts
    for statement in document["evidence"]:
        assert any(text.startswith(f"{statement['delta']:.6g}".replace("e-0", "e-")) for text in page.texts), statement
    assert all(version in page.texts for version in document["versions"].values())
    assert all(str(seed) in page.texts for seed in document["seeds"].values())


def test_every_estimate_is_labelled(report, page):
    rows = report.page.read_text(encoding="utf-8").split("<tr")
    estimates = [row for row in rows if "mixture importance sampling" in row]
    assert len(estimates) == 2 and all("estimate, no guarantee" in row and "±" in row for row in estimates)


def test_trials_are_counted_and_their_reasons_given(page):
    assert {"fully evaluated", "stopped early", "failed", "running"} <= set(page.texts)
    assert runs.REASON in page.texts


def test_texts_from_files_are_never_markup(report, page):
    text = report.page.read_text(encoding="utf-8")
    assert "<script" not in text and "<b>" not in text
    assert "&lt;script&gt;" in text and any("run & <b>" in one for one in page.texts)


def test_the_same_run_gives_the_same_files(report, finished, tmp_path):
    again = build_report(finished, out=tmp_path / "deep" / "again")
    assert again.page.read_bytes() == report.page.read_bytes()
    assert [path.read_bytes() for path in again.figures] == [path.read_bytes() for path in report.figures]
    assert sorted(path.name for path in again.page.parent.iterdir()) == sorted(["report.html", *(path.name for path in report.figures)])


def test_an_unfinished_run_says_so_and_claims_nothing(unfinished_report):
    page = page_of(unfinished_report)
    assert not unfinished_report.finished and "This run is not finished" in page.texts and "bandsmith tune --resume unfinished" in page.texts
    assert "no privacy guarantee of any kind" in page.text and "What is guaranteed" not in page.texts and not page.found("dl")
    assert [path.stem for path in unfinished_report.figures] == ["rmse_by_bandwidth", "search_history", "coefficients"]


@pytest.mark.parametrize(("ends", "figures"), [
    ((("nested_ra", 4, "fail", None), ("min_sep_ra", 8, "running", None)), []),
    ((("nested_ra", 4, "prune", 1.5),), ["rmse_by_bandwidth", "search_history"]),
    ((("poisson", 1, "complete", 1.5),), ["rmse_by_bandwidth", "search_history"]),
])
def test_a_search_that_found_little_has_a_report(tmp_path, ends, figures):
    report = build_report(runs.make_unfinished(tmp_path / "run", ends=ends))
    assert [path.stem for path in report.figures] == figures
    assert "This run is not finished" in page_of(report).texts


def test_values_that_cannot_be_drawn_are_counted(tmp_path):
    ends = (("nested_ra", 4, "complete", 1.5), ("nested_ra", 2, "complete", 0.0))
    report = build_report(runs.make_unfinished(tmp_path / "run", ends=ends))
    assert report.notes == ("1 trial with an RMSE that is not a finite number > 0 left out of the figures.",)
    assert report.notes[0] in page_of(report).texts


def test_a_run_with_fixed_size_batches_has_a_reduced_report(fixed_size_report):
    page = page_of(fixed_size_report)
    assert fixed_size_report.finished and [path.stem for path in fixed_size_report.figures] == ["privacy"]
    assert "replace" in page.texts and "deterministic bound" in page.texts and "The search" not in page.texts


def test_a_bad_folder_writes_nothing(tmp_path):
    with pytest.raises(InputError, match="empty"):
        (tmp_path / "empty").mkdir()
        build_report(tmp_path / "empty", out=tmp_path / "report")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_a_report_that_fails_costs_nothing_but_the_page(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "report").mkdir(exist_ok=True)
    (folder / "report" / "report.html").write_text("about an older strategy")
    before = (folder / "strategy.json").read_bytes()

    def lost(*_, **__):
        raise RuntimeError("no fonts")

    monkeypatch.setattr(build, "privacy_curves", lost)
    with pytest.warns(UserWarning, match="RuntimeError: no fonts; `bandsmith report`"):
        assert build.report_at_the_end(folder) is None
    assert (folder / "strategy.json").read_bytes() == before and not (folder / "report" / "report.html").exists()


def test_a_browser_shows_it(report, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium on PATH")
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", report.page.as_uri(),
    ]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert shown.count("<img ") == 4 and "The certificate, in words" in Page(shown).texts
