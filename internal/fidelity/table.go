package fidelity

import (
	"fmt"
	"strings"
)

// Column is one type, or the array of one, as a column of a Table.
type Column struct {
	Name, Type string
	// Values are SQL, one a row; rows beyond are NULL.
	Values []string
}

// Table is some columns and their rows.
type Table struct {
	Name    string
	Columns []Column
}

// width is how many columns a table has.
const width = 40

// Columns are the types of that major, each with the array of it.
func Columns(major int) []Column {
	var list []Column
	for _, t := range Types() {
		if t.Since > major {
			continue
		}
		c := Column{Name: fmt.Sprintf("c%d", len(list)), Type: t.Name}
		for _, v := range t.Values {
			c.Values = append(c.Values, literal(v)+"::"+t.Name)
		}
		c.Values = append(c.Values, t.Exprs...)
		list = append(list, c)
		if !t.NoArray {
			list = append(list, array(len(list), t.Name, c.Values))
		}
	}
	return list
}

// array is the array of a type: all its values and NULL, none at all, two dimensions, and
// one that does not begin at 1.
func array(n int, name string, values []string) Column {
	few := values[:min(len(values), 13)]
	last := few[len(few)-1]
	return Column{Name: fmt.Sprintf("c%d", n), Type: name + "[]", Values: []string{
		"ARRAY[" + strings.Join(few, ", ") + ", NULL]::" + name + "[]",
		"'{}'::" + name + "[]",
		"ARRAY[[" + few[0] + ", " + last + "], [NULL, " + last + "]]::" + name + "[]",
		"array_fill(" + few[0] + ", ARRAY[2], ARRAY[0])::" + name + "[]",
	}}
}

// Tables cuts the columns of a major into tables.
func Tables(major int) []Table {
	var list []Table
	columns := Columns(major)
	for start := 0; start < len(columns); start += width {
		end := min(start+width, len(columns))
		list = append(list, Table{Name: fmt.Sprintf("t%d", len(list)), Columns: columns[start:end]})
	}
	return list
}

// Rows is how many rows the table has: the most values of a column, and one of NULLs.
func (t Table) Rows() int {
	rows := 0
	for _, c := range t.Columns {
		rows = max(rows, len(c.Values))
	}
	return rows + 1
}

// Create makes the table, with a key, whole old rows, and large values stored out of line.
func (t Table) Create() string {
	columns := []string{"id int PRIMARY KEY", "n int NOT NULL DEFAULT 0"}
	for _, c := range t.Columns {
		columns = append(columns, c.Name+" "+c.Type)
	}
	return "CREATE TABLE " + t.Name + " (" + strings.Join(columns, ", ") + "); ALTER TABLE " + t.Name + " REPLICA IDENTITY FULL"
}

// Insert writes all rows.
func (t Table) Insert() string {
	var rows []string
	for i := range t.Rows() {
		row := []string{fmt.Sprint(i), "0"}
		for _, c := range t.Columns {
			if i < len(c.Values) {
				row = append(row, c.Values[i])
			} else {
				row = append(row, "NULL::"+c.Type)
			}
		}
		rows = append(rows, "("+strings.Join(row, ", ")+")")
	}
	return "INSERT INTO " + t.Name + " VALUES " + strings.Join(rows, ", ")
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
