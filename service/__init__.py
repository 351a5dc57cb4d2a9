"""Serves a crosslet artifact over HTTP, with a document index. Independent of training."""

from service.process.telemetry_off import switch_telemetry_off

switch_telemetry_off()  # before any module of this package loads a library
