"""What a run writes while it trains: metrics, artifacts, maps, external loggers and the display."""
