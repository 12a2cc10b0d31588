"""Several hosts drawn: a row for each, what is wrong among them, and the details of one."""
