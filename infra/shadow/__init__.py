"""What is read of a running Kafka Streams application: its output topic, and how far its group has read."""
