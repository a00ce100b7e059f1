"""The test lab: real FUSE connections, booted nodes, sshd and PostgreSQL for tests that must not trust a stand-in."""
