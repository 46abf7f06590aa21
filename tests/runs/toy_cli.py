"""`emcts` with the toy catalogue, as a process of its own that tests can stop and kill."""

import sys

from emcts.cli import catalogue, main
from tests.runs.toy import ToyCatalogue

if __name__ == "__main__":
    catalogue.installed = ToyCatalogue  # type: ignore[assignment]
    main(sys.argv[1:])
