"""What packaging/build and packaging/notices are made of. Python 3.11 or newer, and nothing else."""
