"""Tests of the repository itself: who may import whom, the steps of "How to add", and the wheel."""
