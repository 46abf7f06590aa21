"""What a sweep will take, as a table on the screen."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from emcts.experiments.plan import Planned
from emcts.runs.logging.display import duration


def plan_table(title: str, planned: Sequence[Planned]) -> Table:
    """A line for each row, whose runs differ in their seeds alone."""
    table = Table(box=box.SIMPLE, title=title, title_justify="left")
    for column in ("row", "runs", "seeds", "steps each", "steps left", "steps/s", "time", "disk"):
        table.add_column(column, justify="left" if column == "row" else "right")
    for name in dict.fromkeys(one.job.row.name for one in planned):
        runs = [one for one in planned if one.job.row.name == name]
        speed = runs[-1].steps_per_second
        table.add_row(
            name,
            str(len(runs)),
            str(sum(len(one.job.seeds) for one in runs)),
            f"{runs[0].job.total_env_steps:,}",
            f"{sum(one.steps_left for one in runs):,}",
            "unknown" if speed is None else f"{speed:,.0f}",
            *_time_and_disk(runs),
        )
    left = f"{sum(one.steps_left for one in planned):,}"
    table.add_row("all", str(len(planned)), "", "", left, "", *_time_and_disk(planned))
    return table


def _time_and_disk(planned: Sequence[Planned]) -> tuple[str, str]:
    """One run after the other."""
    times = [one.seconds for one in planned if one.seconds is not None]
    whole = "" if len(times) == len(planned) else " and more"
    disk = f"{sum(one.disk_bytes for one in planned) / 2**20:,.0f} MiB"
    return (f"{duration(sum(times))}{whole}" if times else "unknown"), disk
