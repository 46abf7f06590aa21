def command(*names: str) -> str:
    return ""
