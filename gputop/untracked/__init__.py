"""Runs that gputop did not start and that write no journal, found by what their processes show."""
