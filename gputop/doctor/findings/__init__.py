"""What the doctor reports: findings, their wording, and the commands that fix them."""
