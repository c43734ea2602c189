"""What sources read besides files: Kafka topics, Delta tables, tables of PostgreSQL."""
