"""What the relations that invariants name are: of an epoch, of its inputs, of what is committed."""
