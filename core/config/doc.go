// Package config turns a YAML file, the environment and command-line flags into one
// validated Config. It is the only place that reads any of the three, and only
// cmd/replicant-sidecar imports it: every other package takes Options of its own.
//
// Precedence, lowest first: default, file, environment, flag. The origin of each value
// is kept for `config show`. Every fault is reported at once, with its place, and no
// fault text ever holds a secret.
package config
