"""Resolves links from pages of the site to files and folders beside it, such as examples/ and results/.

Files are offered for download, and folders are named without a link. A page that the site includes
from elsewhere (CONTRIBUTING.md) is linked where the site has it.
"""

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

INCLUDED = {"CONTRIBUTING": "contributing", "CHANGELOG": "changelog", "README": "index"}


class LinksOutside(SphinxTransform):
    """Rewrites links that leave docs/ while a page is read, so that files are collected for download."""

    default_priority = 500

    def apply(self, **kwargs: Any) -> None:
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["reftype"] == "myst" and link["refdomain"] == "doc":
                self._page(link)
            elif link["reftype"] == "myst":
                self._folder(link)

    def _page(self, link: addnodes.pending_xref) -> None:
        """A page or notebook outside of docs/: its name is a path without the suffix."""
        path = Path(link["reftarget"])
        if not path.is_absolute():
            return
        root = Path(self.env.srcdir).parent
        page = INCLUDED.get(path.name) if path.parent == root else None
        if page in self.env.found_docs:
            link["reftarget"] = page
            return
        files = [path.with_name(path.name + suffix) for suffix in (".md", ".ipynb")]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            return
        download = addnodes.download_reference(
            "", "", *link.children, reftarget="/" + os.path.relpath(file, self.env.srcdir), reftype="myst"
        )
        download["refdoc"], download["refexplicit"], download["refdomain"] = self.env.docname, True, None
        link.replace_self(download)

    def _folder(self, link: addnodes.pending_xref) -> None:
        _, path = self.env.relfn2path(link["reftarget"], self.env.docname)
        if Path(path).is_dir():
            link.replace_self(nodes.inline("", "", *link.children))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(LinksOutside)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
