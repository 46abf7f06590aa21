def api(*names: str) -> str:
    return ""
