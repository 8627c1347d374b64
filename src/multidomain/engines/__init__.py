"""Engines: where tasks run, in processes of this machine or on a cluster."""
