"""`python -m emcts` is the console script `emcts`."""

from emcts.cli import main

if __name__ == "__main__":
    main()
