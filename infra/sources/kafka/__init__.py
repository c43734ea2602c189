"""Kafka topics as sources: a slice is planned, consumed once into files of the epoch, and read by Spark."""
