"""What the doctor is judged on, and how it is asked: the parts of ``doctor_accuracy`` and ``doctor_strangers``."""
