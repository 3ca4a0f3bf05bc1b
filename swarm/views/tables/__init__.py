"""Makes tables of a run: `rows` reads records, `columns` types them, `frames` are for pandas, `export` for files."""
