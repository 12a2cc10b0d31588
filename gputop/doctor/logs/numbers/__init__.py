"""What the numbers in the lines of a log say: of each rank, of the parts of a step, of times and memory."""
