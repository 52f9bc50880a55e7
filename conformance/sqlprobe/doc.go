// Package sqlprobe reads a sink's store by SQL, where that is a Postgres or a SQLite file.
//
// Tables are found by a template of their name, or by the sink's own list of names: a
// table _replicant_columns with pg_schema, pg_table, pg_column, "table" and "column", one
// row per column.
package sqlprobe
