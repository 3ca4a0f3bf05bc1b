"""The page that says what a study shows; start at contents.py."""
