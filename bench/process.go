package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticks a second of the CPU times in /proc; fixed on Linux for user space.
const ticks = 100

// cpuSeconds is user and system time of a process so far; 0 when it is gone.
func cpuSeconds(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, found := strings.Cut(string(b), ") ")
	if !found {
		return 0
	}
	f := strings.Fields(rest)
	const utime, stime = 11, 12 // fields 14 and 15 of proc(5), counted behind the name
	user, _ := strconv.ParseFloat(f[utime], 64)
	system, _ := strconv.ParseFloat(f[stime], 64)
	return (user + system) / ticks
}

// peakMB is the highest resident memory of a process so far.
func peakMB(pid int) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024
		}
	}
	return 0
}
