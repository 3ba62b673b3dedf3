"""table1.md and sensitivity.md: the results as tables in Markdown."""
