"""Tests of what this process reads of files."""
