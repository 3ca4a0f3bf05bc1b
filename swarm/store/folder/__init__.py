"""The shared folder: durable writes, bounded reads, wake-ups. Blocking calls here run in threads."""
