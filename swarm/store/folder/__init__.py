"""The folder store: durable writes, bounded reads, bundles, hints of changes, health."""
