"""Benchmarks of speed and memory, side by side with other software."""

from service.process.telemetry_off import switch_telemetry_off

switch_telemetry_off()  # before any module of this package imports a library
