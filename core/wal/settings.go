package wal

import (
	"slices"
	"strings"
)

// Setting is a server setting with the value that this project pins.
type Setting struct {
	Name, Value string
	// Since is the first major that has it; 0 when all supported majors do. A newer
	// one cannot travel in the startup packet and is SET right after connecting.
	Since int
}

// pinned is the one list. Role, database and server configuration may say otherwise for
// each of them, and a reload in mid-stream would change the text of later rows: what
// is set by the startup packet stays.
var pinned = []Setting{
	// How values are printed.
	{Name: "client_encoding", Value: "UTF8"},
	{Name: "DateStyle", Value: "ISO, MDY"},
	{Name: "TimeZone", Value: "UTC"},
	{Name: "IntervalStyle", Value: "postgres"},
	{Name: "extra_float_digits", Value: "1"},
	{Name: "bytea_output", Value: "hex"},
	{Name: "lc_monetary", Value: "C"},
	// regclass and its kin print names as the search path and quoting rule have it.
	{Name: "search_path", Value: "pg_catalog"},
	{Name: "quote_all_identifiers", Value: "off"},
	// How our own quoting is read.
	{Name: "standard_conforming_strings", Value: "on"},
	// A copy fails instead of leaving rows out without a word.
	{Name: "row_security", Value: "off"},
	// Nothing ends a session that is in use.
	{Name: "statement_timeout", Value: "0"},
	{Name: "lock_timeout", Value: "0"},
	{Name: "idle_in_transaction_session_timeout", Value: "0"},
	{Name: "idle_session_timeout", Value: "0"},
	{Name: "transaction_timeout", Value: "0", Since: 17},
}

// PinnedSettings lists what every connection to the source must set, replication,
// catalog and snapshot alike, so that one value is printed one way everywhere.
func PinnedSettings() []Setting { return slices.Clone(pinned) }

// pinStartup writes the pinned settings into startup parameters. Parameters of the same
// name in another spelling are removed: the packet's order would decide between them.
func pinStartup(parameters map[string]string) {
	for _, s := range pinned {
		for name := range parameters {
			if strings.EqualFold(name, s.Name) {
				delete(parameters, name)
			}
		}
		if s.Since == 0 {
			parameters[s.Name] = s.Value
		}
	}
}

// lateSettings is the statement for settings that only this major and later ones know;
// empty when there are none.
func lateSettings(major int) string {
	var b strings.Builder
	for _, s := range pinned {
		if s.Since > 0 && major >= s.Since {
			b.WriteString("SET " + s.Name + " = " + quoteLiteral(s.Value) + ";")
		}
	}
	return b.String()
}

// checkSettings is a query of three text columns: the names of pinned settings that are
// not in force, joined by commas; the backend's process id; wal_sender_timeout in ms.
func checkSettings(major int) string {
	var wrong []string
	for _, s := range pinned {
		if major >= s.Since {
			wrong = append(wrong, "CASE WHEN pg_catalog.current_setting("+quoteLiteral(s.Name)+") <> "+
				quoteLiteral(s.Value)+" THEN "+quoteLiteral(s.Name)+" END")
		}
	}
	return "SELECT pg_catalog.concat_ws(', ', " + strings.Join(wrong, ", ") + "), pg_catalog.pg_backend_pid()::text, " +
		"(SELECT setting FROM pg_catalog.pg_settings WHERE name = 'wal_sender_timeout')"
}

// quoteLiteral quotes for SQL and for the replication grammar, which has no escapes.
func quoteLiteral(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// quoteIdentifier quotes a name.
func quoteIdentifier(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
