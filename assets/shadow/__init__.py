"""The audit of a running application: its output topic against our rows."""
