"""Sends spans of requests and their stages to an OpenTelemetry collector. Needs the extra `traces`.

Imported only where the environment asks for traces (`service/cli/serve.py`). A span has names, times and numbers: no
text, no id of a document.
"""

import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from opentelemetry import context, propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from service.model.stages import Stage, collecting
from service.version import VERSION

CLOSE_S = 5.0  # of a shutdown
NS = 1_000_000_000

T = TypeVar("T")


class Traces:
    """The spans of a process. Its settings are OpenTelemetry's variables: endpoint, headers, sampler, resource.

    A thread sends them in batches; what a collector does not take is dropped.
    """

    def __init__(self) -> None:
        own = Resource({"service.name": "crosslet", "service.version": VERSION})
        self._provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()))
        self._exporter = OTLPSpanExporter()
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._tracer = self._provider.get_tracer("crosslet", VERSION)

    @contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[trace.Span]:
        """Make a request's span the current one; the caller ends it. Its parent is what the headers name, if any."""
        parent = propagate.extract(headers, context.get_current())
        span = self._tracer.start_span(method, context=parent, kind=trace.SpanKind.SERVER)
        token = context.attach(trace.set_span_in_context(span, parent))
        try:
            yield span
        finally:
            context.detach(token)

    def add(self, stages: Sequence[Stage]) -> None:
        """Add stages to the current span: one of each name, from the first's start to the last's end."""
        if not trace.get_current_span().is_recording():
            return
        epoch_ns = time.time_ns() - int(time.monotonic() * NS)
        for name in dict.fromkeys(stage.name for stage in stages):
            parts = [stage for stage in stages if stage.name == name]
            busy_s = sum(part.ended_at - part.started_at for part in parts)
            span = self._tracer.start_span(
                name,
                start_time=epoch_ns + int(min(part.started_at for part in parts) * NS),
                attributes={"crosslet.parts": len(parts), "crosslet.busy_ms": round(busy_s * 1000, 3)},
            )
            span.end(epoch_ns + int(max(part.ended_at for part in parts) * NS))

    async def add_of(self, run: Callable[[Callable[[], T]], Awaitable[T]], call: Callable[[], T]) -> T:
        """Return what `run` returns, which runs `call` in a thread; add its stages."""
        stages: list[Stage] = []
        try:
            return await run(lambda: collecting(stages, call))
        finally:
            self.add(stages)

    def close(self) -> None:
        """Send what is left. Blocks; where the collector is away, for `CLOSE_S`."""
        giving_up = threading.Timer(CLOSE_S, self._exporter.shutdown)  # else the SDK tries for half a minute
        giving_up.start()
        self._provider.shutdown()
        giving_up.cancel()
