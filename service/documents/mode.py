"""The ways to find documents. Knows their names; searches nothing."""

from typing import Literal

Mode = Literal["dense", "keywords", "hybrid"]
