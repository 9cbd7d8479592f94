"""Generated from `proto/ottla/v1/log.proto` by `make proto`; the proto file is the documentation."""
