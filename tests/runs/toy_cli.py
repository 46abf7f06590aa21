"""`emcts` with the toy catalogue, as a process of its own that tests can stop and kill."""

import sys

from emcts.agents import catalogue
from emcts.cli import main
from tests.runs.toy import ToyCatalogue

if __name__ == "__main__":
    catalogue.installed = ToyCatalogue
    main(sys.argv[1:])
