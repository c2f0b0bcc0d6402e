"""The family `mount`: file systems and swap space, mounted now, and in fstab for the next boot."""
