"""The half of the doctor's strangers that is set aside: only measured.

Who may read what. Whoever writes or mends rules and patterns (``gputop/doctor``) reads ``strangers`` and ``open_half`` and
nothing in this folder, and no report names a case of it. Whoever writes cases here does not read ``gputop/doctor``, only the
list of causes in docs/rules.md. A case that somebody had to look into moves to the open half.
"""
