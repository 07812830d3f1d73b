"""Build the documentation site: docs/, the pages that are made from the code, mkdocs in strict mode, and checks.

    python tools/build_site.py [--pages-only | --release VERSION]

With `--release` the site is added to build/sites, which holds one folder per minor version and is what a web server
serves: every page then offers the other versions, and the address without a version leads to the newest.
Pages made from the code are never stored, so none can be out of date. Whatever the site loads must come from the site.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from site_pages import pages

ROOT = Path(__file__).resolve().parents[1]
DOCS, SITE = ROOT / "build" / "site-docs", ROOT / "build" / "site"
SITES = ROOT / "build" / "sites"
MERMAID = "mermaid@11.4.1"
# Attributes by which a page loads something when it is opened.
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}
# Relations of <link> that load nothing.
NO_LOAD = {"canonical", "next", "prev", "alternate", "edit"}


def main() -> None:
    """Make the pages, build, check."""
    write_sources()
    if "--pages-only" in sys.argv:
        return
    fetch_mermaid()
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--quiet"], cwd=ROOT, check=True)
    problems = check(SITE)
    if problems:
        sys.exit("the site has problems:\n  " + "\n  ".join(problems))
    count = len(list(SITE.rglob("*.html")))
    print(f"built {SITE}: {count} pages, every link leads somewhere, nothing is loaded from elsewhere")
    if "--release" in sys.argv:
        print(f"versions: {', '.join(add_version(sys.argv[sys.argv.index('--release') + 1], SITE, SITES))}")


def add_version(version: str, site: Path, sites: Path) -> list[str]:
    """Put a built site beside those of other versions; returns all of them, newest first."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\..*)?", version)
    if found is None:
        sys.exit(f"{version!r} is not a version such as 1.4.0")
    name = f"{found[1]}.{found[2]}"
    shutil.rmtree(sites / name, ignore_errors=True)
    shutil.copytree(site, sites / name)
    known = [one.name for one in sites.iterdir() if re.fullmatch(r"\d+\.\d+", one.name)]
    known.sort(key=lambda one: [int(part) for part in one.split(".")], reverse=True)
    rows = [{"version": one, "title": one, "aliases": ["latest"] if one == known[0] else []} for one in known]
    (sites / "versions.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")
    newest = f"{known[0]}/index.html"
    (sites / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={newest}"><a href="{newest}">GoQueue</a>\n',
        encoding="utf-8",
    )
    return known


def write_sources() -> None:
    """docs/, the README as the first page, the changelog, and the pages made from the code."""
    shutil.rmtree(DOCS, ignore_errors=True)
    shutil.copytree(ROOT / "docs", DOCS)
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for name, target in (("README.md", "index.md"), ("CHANGELOG.md", "changelog.md")):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        text = text.replace("](docs/adr)", "](adr/README.md)").replace("](CHANGELOG.md)", "](changelog.md)")
        # Files that are not part of the site are named, not linked.
        text = re.sub(r"\[([^\]]+)\]\((?:CONTRIBUTING\.md|LICENSE|examples/README\.md)\)", r"\1", text)
        (DOCS / target).write_text(text, encoding="utf-8")
    for name, text in pages().items():
        (DOCS / "reference" / name).write_text(text, encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        relative = str(page.relative_to(DOCS))
        if relative not in nav and not relative.startswith("adr/"):
            sys.exit(f"{relative} is in no section of mkdocs.yml")


def fetch_mermaid() -> None:
    """The program that draws diagrams, from npm, into the site itself."""
    target = DOCS / "assets" / "mermaid.min.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = ROOT / "build" / f"{MERMAID.replace('@', '-')}.min.js"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", MERMAID, "--silent"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            (packed,) = Path(folder).glob("*.tgz")
            with tarfile.open(packed) as archive, kept.open("wb") as out:
                member = archive.extractfile("package/dist/mermaid.min.js")
                if member is None:
                    sys.exit(f"{MERMAID} holds no dist/mermaid.min.js")
                shutil.copyfileobj(member, out)
    shutil.copy(kept, target)


class _Page(HTMLParser):
    """What a page loads, links to, and can be linked at."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loaded = found.get(LOADS.get(tag, ""), "")
        if loaded and not NO_LOAD & set(found.get("rel", "").split()):
            self.loads.append(loaded)


def check(site: Path) -> list[str]:
    """Loads from other hosts, and links within the site that lead nowhere."""
    parsed = {}
    for path in site.rglob("*.html"):
        parsed[path] = _Page()
        parsed[path].feed(path.read_text(encoding="utf-8"))
    problems = []
    for path, page in parsed.items():
        where = path.relative_to(site)
        problems += [f"{where} loads {one}" for one in page.loads if urlsplit(one).netloc]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or where.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                problems.append(f"{where} links to {link}, which is not there")
            elif parts.fragment and target in parsed and unquote(parts.fragment) not in parsed[target].anchors:
                problems.append(f"{where} links to {link}, and there is no such heading")
    return problems


if __name__ == "__main__":
    main()
