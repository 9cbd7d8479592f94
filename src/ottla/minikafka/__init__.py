"""Generated from `proto/ottla/minikafka/minikafka.proto` by `make proto`; the proto file is the documentation."""
