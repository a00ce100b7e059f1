"""What monitors send: a delivery in, alerts out. Reading and verifying have no network, no clock and no store."""
