"""Several hosts drawn: a row for each, their problems, and the details of one."""
