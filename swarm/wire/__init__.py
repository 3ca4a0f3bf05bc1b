"""What nodes tell each other: keys, JSON forms, their encoding and signatures; PROTOCOL.md says it for people."""
