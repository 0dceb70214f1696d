"""The documentation is built without a warning, and nothing in it leads nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """What a page links to, what it shows, and where it can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.loaded: list[str] = []
        self.anchors = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if tag == "img":
            self.images.append(values)
        if tag in ("script", "img", "iframe"):
            self.loaded.append(values.get("src") or "")
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(values.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as scripts/docs builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        f"{folder}/doctrees",
        "docs",
        f"{folder}/html",
    ]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    assert len(found) > 20
    return found


def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists() or (target in pages and unquote(parts.fragment) not in pages[target].anchors):
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_every_picture_is_there_and_explained(pages: dict[Path, Page]) -> None:
    every = [(path, image) for path, page in pages.items() for image in page.images]
    shown = [(path, image) for path, image in every if "_static/" not in (image["src"] or "")]  # those are the theme's
    assert len(shown) >= 9
    for path, image in shown:
        assert (path.parent / unquote(image["src"] or "")).resolve().exists(), f"{path.name}: {image['src']}"
        assert len(image["alt"] or "") > 40, f"{path.name}: {image['src']} needs a sentence that says what it shows"


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [source for source in page.loaded if urlsplit(source).netloc] == [], path.name


def test_every_public_name_is_in_the_reference(pages: dict[Path, Page]) -> None:
    import banditmips

    anchors = set().union(*(page.anchors for path, page in pages.items() if path.parent.name == "api"))
    modules = {"baselines", "datasets", "distributed", "estimators"}
    missing = {name for name in banditmips.__all__ if f"banditmips.{name}" not in anchors}
    assert missing <= modules | {"__version__"}


def test_the_site_can_be_searched(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for page in ("ten-minutes", "coming-from", "options", "deploying", "guarantees"):
        assert f'"{page}"' in index
    assert '"needl"' in index or '"needle"' in index  # a word of the guarantees, as a stem


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_the_front_pages_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not urlsplit(target).scheme]
    assert targets
    missing = [target for target in targets if not (ROOT / unquote(urlsplit(target).path)).exists()]
    assert missing == []
