import sys

print(f"Hello from Python {sys.version_info.major}!")
