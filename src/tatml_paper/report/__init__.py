"""report.html: the results as one page, and the pictures that it shows."""
