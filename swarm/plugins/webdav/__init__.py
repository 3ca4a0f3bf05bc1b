"""A store in a folder of a WebDAV server, such as a Nextcloud or ownCloud share."""
