package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time, written "10s", "500ms" or "1m30s".
type Duration time.Duration

// String is the shortest form a user would write: "1m30s", "10s", "0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if cut, ok := strings.CutSuffix(s, "m0s"); ok {
		s = cut + "m"
	}
	if cut, ok := strings.CutSuffix(s, "h0m"); ok {
		s = cut + "h"
	}
	return s
}

// Size is a number of bytes, written "16MiB", "512KiB" or "1GiB".
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// String uses the largest unit that loses nothing.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", int64(s)/unit.bytes, unit.suffix)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}

// The accepted forms, as faults and the JSON schema give them.
const (
	durationForm    = `a duration with a unit, such as "500ms", "10s" or "1m30s"`
	sizeForm        = `a size with a unit, such as "512KiB", "16MiB" or "1GiB"`
	durationPattern = `^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	sizePattern     = `^[0-9]+(\.[0-9]+)?(B|KiB|MiB|GiB)$`
)

var sizeRE = regexp.MustCompile(sizePattern)

// parseDuration returns a problem text, empty when all is well.
func parseDuration(text string) (Duration, string) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, "wants " + durationForm
	case d < 0:
		return 0, "must not be negative; it wants " + durationForm
	}
	return Duration(d), ""
}

func parseSize(text string) (Size, string) {
	if !sizeRE.MatchString(text) {
		return 0, "wants " + sizeForm
	}
	for _, unit := range sizeUnits {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(number, 64)
		bytes := f * float64(unit.bytes)
		switch {
		case err != nil || bytes >= math.MaxInt64:
			return 0, "is too large; it wants " + sizeForm
		case bytes != math.Trunc(bytes):
			return 0, "is no whole number of bytes; it wants " + sizeForm
		}
		return Size(bytes), ""
	}
	return 0, "wants " + sizeForm
}
