"""What the evaluations of a training show beside its loss: their courses, and what is wrong with them (J05, J06)."""
