"""What client and server agree on: services, errors and conversions. No I/O and no logic of its own."""
