package child

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// living reports whether a process of the group is more than a corpse that its new
// parent has not buried yet. Where /proc cannot be read, every process counts.
func living(group int) bool {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return true
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // ended in between
		}
		// pid (name) state parent group ...; the name may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
}
