"""What the texts of logs mean: which failure came first, and the findings that say so."""
