"""The loads that every server gets: numbers of clients and batch sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    """A closed loop: `clients` connections each send a request of `batch` texts once the last one is answered."""

    clients: int
    batch: int

    @property
    def name(self) -> str:
        """Its name on the page."""
        texts = "1 text" if self.batch == 1 else f"{self.batch} texts"
        return f"{texts}, {self.clients} client{'s' if self.clients > 1 else ''}"


ONE = Load(clients=1, batch=1)
FEW = Load(clients=8, batch=1)
MANY = Load(clients=64, batch=1)
BATCH_8 = Load(clients=1, batch=8)
BATCH_32 = Load(clients=1, batch=32)
BATCH_256 = Load(clients=1, batch=256)
LOADS = (ONE, FEW, MANY, BATCH_8, BATCH_32, BATCH_256)
