package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Witness is one line of a witness file: a point that acted.
type Witness struct {
	Point   Point
	Ordinal int64
	PID     int
	Action  string
}

// ReadWitness reads a witness file. A file that is not there holds no witness; a line
// that is not wholly there, or names a point that does not exist, is an error.
func ReadWitness(file string) ([]Witness, error) {
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []Witness
	for line := range strings.Lines(string(text)) {
		w, err := readLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", file, line, err)
		}
		all = append(all, w)
	}
	return all, nil
}

func readLine(line string) (w Witness, err error) {
	whole, ended := strings.CutSuffix(line, "\n")
	fields := strings.Fields(whole)
	if !ended || len(fields) != 4 {
		return w, fmt.Errorf("not a witness line")
	}
	w.Point, w.Action = Point(fields[0]), fields[3]
	if !slices.ContainsFunc(declared, func(d Declaration) bool { return d.Point == w.Point }) {
		return w, fmt.Errorf("there is no such point")
	}
	if w.Ordinal, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
		return w, err
	}
	w.PID, err = strconv.Atoi(fields[2])
	return w, err
}

// NotFired lists the declared points that no line of the given witness files names. With
// groups, such as "U" and "S", only points that serve a row of one of them are asked for.
// The runner of the fault matrix calls it last, over all witnesses of its rows.
func NotFired(files []string, groups ...string) ([]Point, error) {
	fired := map[Point]bool{}
	for _, file := range files {
		all, err := ReadWitness(file)
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			fired[w.Point] = true
		}
	}
	var missing []Point
	for _, d := range declared {
		if !fired[d.Point] && d.serves(groups) {
			missing = append(missing, d.Point)
		}
	}
	return missing, nil
}

func (d Declaration) serves(groups []string) bool {
	return len(groups) == 0 || slices.ContainsFunc(d.Rows, func(row string) bool {
		return slices.Contains(groups, strings.TrimRight(row, "0123456789"))
	})
}
