"""Operations of one input, and merge."""
