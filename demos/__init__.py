"""The bundled runs: each is a short training script that also runs by hand."""
