"""All tables of pages, by the names that stand in the pages."""

from benchmarks.pages import (
    besides,
    beyond,
    careful,
    figure_1,
    figure_2,
    figures_3_to_5,
    summary,
    why_search,
)
from benchmarks.pages.page import Makers

TABLES: Makers = {
    **figure_1.TABLES,
    **figure_2.TABLES,
    **figures_3_to_5.TABLES,
    **besides.TABLES,
    **beyond.TABLES,
    **careful.TABLES,
    **summary.TABLES,
    **why_search.TABLES,
}
