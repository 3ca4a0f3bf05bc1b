"""What runs left in the folder, as pandas frames and as files; start at frames.py."""
