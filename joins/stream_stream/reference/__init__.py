"""The join in plain Python, one record at a time: the law that the operators are held to, a file per profile."""
