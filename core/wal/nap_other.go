//go:build !linux

package wal

import "time"

func nap(d time.Duration) { time.Sleep(d) }
