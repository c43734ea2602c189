"""``rivermeet diff``: what a change of declarations would do, before it is deployed."""
