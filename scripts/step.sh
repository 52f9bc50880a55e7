#!/bin/sh
# Prints the heading of a step, so that a long log can be read.
printf '\n==> %s\n' "$*"
