//go:build !failpoints

package main

// faultInjection says whether this binary can be told to fail on purpose.
const faultInjection = "absent"
