"""The page that says what a study shows; start at write.py; contents.py has the order of the sections."""
