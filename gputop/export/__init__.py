"""Prometheus metrics over HTTP: a snapshot and the doctor's findings, under OpenTelemetry's names where it has any."""
