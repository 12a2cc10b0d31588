"""Pure drawing: values in, lines of spans out."""
