"""Tables of the documentation, written from the files of results: `python -m benchmarks.pages` writes them anew."""
