package testsink

import (
	"strconv"
	"strings"
)

// The mirror's own columns, in tables that a snapshot was read into or that were written
// since a first one began: whether the row came from a snapshot and no stream change has
// touched it, and the generation of the run that wrote it, or that was on when the stream
// did. Their names cannot be taken for columns of the source by package judge.
const (
	nameOrigin     = "testsink.snapshot"
	nameGeneration = "testsink.generation"
	markOrigin     = `"` + nameOrigin + `"`
	markGeneration = `"` + nameGeneration + `"`
)

func isMark(column string) bool { return column == nameOrigin || column == nameGeneration }

func markNames() []string { return []string{markOrigin, markGeneration} }

// addMarks makes the rows that are there rows of the stream, older than any run.
func addMarks(table string) string {
	return `ALTER TABLE ` + table + ` ADD COLUMN ` + markOrigin + ` bool NOT NULL DEFAULT false, ADD COLUMN ` +
		markGeneration + ` bigint NOT NULL DEFAULT 0`
}

func (k runKind) origin() string { return strconv.FormatBool(k == runCopy) }

// touched is what a write does to the marks of a row that is there: a row of the stream
// stays one, whatever a snapshot brings.
func (g *target) touched(kind runKind) []string {
	sets := []string{markGeneration + " = EXCLUDED." + markGeneration}
	if kind != runCopy {
		sets = append(sets, markOrigin+" = false")
	}
	return sets
}

// markArg adds the generation as the last parameter of a write to a marked table.
func (t *tx) markArg(g *target) {
	if g.marked {
		t.args.number(int64(t.generation))
	}
}

// updateKnown replaces columns of rows that are there, and leaves out the others.
func (g *target) updateKnown(from string, picked []string, mask string) string {
	var aliases, same, sets []string
	for i, column := range g.columns {
		if !carried(mask, i) {
			continue
		}
		aliases = append(aliases, "k"+strconv.Itoa(len(aliases)+1))
		alias := "k." + aliases[len(aliases)-1]
		if g.inKey[i] {
			same = append(same, "t."+column+" = "+alias)
		}
		sets = append(sets, column+" = "+alias)
	}
	if g.marked {
		sets = append(sets, markOrigin+" = false", markGeneration+" = "+parameter(len(picked)+1)+"::bigint")
	}
	return "UPDATE " + g.table + " t SET " + strings.Join(sets, ", ") + " FROM " + from + " k(" + strings.Join(aliases, ", ") +
		") WHERE " + strings.Join(same, " AND ")
}

// sameKey compares the key of a row under that alias with expressions, one a column.
func (g *target) sameKey(alias string, values []string) string {
	var same []string
	for i, column := range g.columns {
		if g.inKey[i] {
			same = append(same, alias+"."+column+" = "+values[i])
		}
	}
	return strings.Join(same, " AND ")
}

// generationNow is the generation of the stream's latest run. Only a large transaction,
// and a sink whose checkpoint the sidecar keeps, come here before the row was loaded; no
// run can begin while they write.
func (t *tx) generationNow() (uint64, error) {
	if t.asked {
		return t.generation, nil
	}
	t.args.reset()
	t.args.text(t.stream)
	rows, err := t.ask(`SELECT generation FROM testsink.snapshot WHERE stream = $1`)
	if err != nil {
		return 0, err
	}
	if len(rows) > 0 {
		if t.generation, err = parseGeneration(rows[0][0]); err != nil {
			return 0, err
		}
	}
	t.asked = true
	return t.generation, nil
}

func parseGeneration(text []byte) (uint64, error) {
	if text == nil {
		return 0, nil
	}
	return strconv.ParseUint(string(text), 10, 63)
}
