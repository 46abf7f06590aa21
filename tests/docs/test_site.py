"""Pages of the site do not take the place of those that Sphinx makes itself."""

from tests.docs.pages import ROOT

MADE_BY_SPHINX = {"search", "genindex", "py-modindex"}


def test_no_page_is_replaced_by_one_that_sphinx_makes() -> None:
    top = {page.stem for page in (ROOT / "docs").iterdir() if page.suffix in (".md", ".ipynb", ".rst")}
    assert "index" in top
    assert not top & MADE_BY_SPHINX
