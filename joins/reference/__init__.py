"""What the reference joins share: records, rows, tables that they look into, options."""
