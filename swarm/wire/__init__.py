"""The shared folder's paths and JSON forms; PROTOCOL.md says the same for people."""
