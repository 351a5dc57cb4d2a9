"""Sends a mix of all requests for a long time: memory must not grow."""

import asyncio
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.endurance.process import ServiceProcess
from benchmarks.endurance.wire import SENTENCES, Connection, batch_request, request_bytes

CLIENTS = 4
KINDS = 9  # of requests; one is invalid and must get a 422
DOCUMENTS = 200  # ids are reused: the index does not grow
WARM_UP_SHARE = 1 / 3  # of the time, while memory settles; not measured
LEAST_SAMPLES = 3  # after the warm-up
SLOPE_LIMIT_MIB = 1.0  # in ten minutes


@dataclass
class Soak:
    statuses: Counter[int] = field(default_factory=Counter)
    at_s: list[float] = field(default_factory=list)
    resident_bytes: list[int] = field(default_factory=list)

    @property
    def mib_per_10_min(self) -> float:
        """Slope of the regression line through the samples after the warm-up; nan if there are too few."""
        start = int(len(self.at_s) * WARM_UP_SHARE)
        if len(self.at_s) - start < LEAST_SAMPLES:
            return math.nan
        slope, _ = np.polyfit(self.at_s[start:], self.resident_bytes[start:], 1)
        return float(slope) * 600 / 2**20

    def failures(self) -> list[str]:
        others = {status: count for status, count in self.statuses.items() if status not in {200, 422}}
        refused, expected = self.statuses[422], self.statuses.total() / KINDS
        checks = {
            f"other statuses than expected: {others}": bool(others),
            f"no response with 200, of {self.statuses.total()}": not self.statuses[200],
            f"{refused} responses with 422, expected about {expected:.0f}": abs(refused - expected) > CLIENTS,
            f"{len(self.at_s)} samples of memory are too few for a slope": math.isnan(self.mib_per_10_min),
            f"memory climbs by {self.mib_per_10_min:.2f} MiB in ten minutes": self.mib_per_10_min >= SLOPE_LIMIT_MIB,
        }
        return [text for text, is_broken in checks.items() if is_broken]


async def soak(
    service: ServiceProcess, *, seconds: float, sample_s: float = 2.0, report: Callable[[Soak], None] | None = None
) -> Soak:
    """Run a few clients for `seconds`. report: called at every sample."""
    found = Soak()
    numbers = itertools.count()
    started = time.monotonic()

    async def client() -> None:
        connection = Connection(service.port)
        while time.monotonic() < started + seconds:
            answer = await connection.ask(mixed_request(next(numbers)))
            found.statuses[answer.status] += 1
        await connection.close()

    clients = asyncio.gather(*(client() for _ in range(CLIENTS)))
    while not clients.done():
        found.at_s.append(time.monotonic() - started)
        found.resident_bytes.append(service.resident_bytes)
        if report is not None:
            report(found)
        await asyncio.wait([clients], timeout=sample_s)
    await clients
    return found


def mixed_request(number: int) -> bytes:
    """The kinds of requests in turn: short, long, batched and invalid texts, other shapes, documents, searches."""
    texts = [f"{sentence} {number}" for sentence in SENTENCES]
    id_ = str(number % DOCUMENTS)
    requests: tuple[tuple[str, str, object], ...] = (
        ("POST", "/embed", {"inputs": texts[number % len(texts)]}),
        ("POST", "/embed", {"inputs": [" ".join(texts) * 25] * 2}),
        ("POST", "/v1/embeddings", {"input": texts, "encoding_format": "base64"}),
        ("POST", "/similarity", {"inputs": {"source_sentence": texts[0], "sentences": texts[1:]}}),
        (
            "PUT",
            "/documents",
            {"documents": [{"id": id_, "text": texts[number % len(texts)], "metadata": {"n": number}}]},
        ),
        ("POST", "/search", {"query": texts[number % len(texts)], "filter": {"n": {"gte": number // 2}}}),
        ("POST", "/embed", {"inputs": [""]}),
        ("GET", "/metrics", None),
    )
    kind = number % KINDS
    return batch_request(number) if kind == KINDS - 1 else request_bytes(*requests[kind])
