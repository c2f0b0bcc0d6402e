#!/bin/sh
echo "Hello from $(uname -n), it is $(date +%H:%M)."
