"""The half of the doctor's strangers that is set aside: only measured.

Who may read what. Whoever writes or mends rules and patterns (``gputop/doctor``) reads the open half in ``strangers`` and
nothing in this folder, and no report names a case of it that fails. Whoever writes cases here does not read ``gputop/doctor``,
only the list of causes in docs/rules.md. A case that somebody had to look into moves to the open half.
"""
