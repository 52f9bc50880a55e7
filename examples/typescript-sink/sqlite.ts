/**
 * SQLite as node:sqlite has it, from a package that brings it to Node 20 too, compiled already.
 * From Node 24 on you may put node:sqlite in its place: this file is all that names it.
 */

export { DatabaseSync } from "@photostructure/sqlite";
export type {
  DatabaseSyncInstance as Database,
  StatementSyncInstance as Statement,
} from "@photostructure/sqlite";
