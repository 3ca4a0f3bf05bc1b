"""A store in a bucket: S3 and what speaks it, Google Cloud Storage, Azure Blob Storage; by obstore (extra `bucket`).

What is one thing for who uses a store is one object or several; the parts of names that hold a `~` are this package's:

    peers/anna.json                        one object: a put replaces it, whole or not at all
    logs/anna/metrics.jsonl                grows: shown as one file of the total size
      └─ metrics.jsonl~/{birth}-{start}    its segments, never changed: lines from byte `start` on
    checkpoints/round_5/anna               a bundle: a prefix, there as soon as its manifest is
      ├─ ~manifest                         names, sizes, digests and the id of its data; put last, replaced by one put
      └─ ~{id}/{number}                    the data of its files

    BucketPlace ─▶ BucketStore ─┬ growing    append: one conditional create     read: one listing, then the new segments
       (place)       (store)    ├ bundles    fill ▶ data ▶ manifest             manifest ▶ data, checked ▶ local folder
                                ├ listing    names of a prefix, page by page, with bounds; whose a name is
                                ├ log        lines wait for a segment
                                └ packing    files as frames of zstd, where that is asked for
                                      └──────▶ BucketClient: counts, tries again, says what failed ─▶ obstore ─▶ server

Requests are what a bucket costs: a put, a get, a look at one file and a page of a listing are one each, an append is
one once its end is known. What failed for a moment (throttling, 5xx, a cut connection) is tried again here, with
jitter. A create whose answer was lost is known again by a random number in its metadata, or by its content.

What a bucket cannot do, or does otherwise than a folder:

- Nothing in a bucket is a link, pipe or folder: an object and a prefix may stand at one key, and both are listed.
  Writers look for what is in their way where that costs little: at the top, and above names with a dot.
- A page of a listing follows the server's order, within which a prefix `a` comes as `a/`.
- Equal contents have equal tags, as a bucket's versions are digests.
- No hints; whoever waits lists. Log lines show up when they are sealed, so many seconds later.
- An interrupted multipart upload may leave parts that are paid for: give the bucket a rule that removes them.
"""
