"""The page that says what a study shows: sections.py declares it, parts.py and write.py draw and write it."""
