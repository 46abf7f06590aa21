"""Writes the tables of README and of docs/results anew, from the files of results."""

from benchmarks.pages.page import ROOT, pages, written
from benchmarks.pages.tables import TABLES

for page in pages():
    before = page.read_text(encoding="utf-8")
    after = written(before, TABLES)
    if after != before:
        page.write_text(after, encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}")
