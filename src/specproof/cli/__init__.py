"""The command line. Parsers are built without torch; each command imports what it needs when it runs."""
