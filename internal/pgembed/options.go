package pgembed

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Options describes one server. The zero value is a throw-away server of the
// newest major that is found.
type Options struct {
	// Major is the major to start; 0 takes any (see Find).
	Major int
	// Find says where to look; it is not used when Binaries is set.
	Find FindOptions
	// Binaries is an installation found before.
	Binaries Binaries
	// Dir is an existing or new directory for the server's files. It is kept
	// when the server ends, and a cluster found in it is used again. Empty
	// means a fresh directory in the system's temporary directory, removed by
	// Close and also when this process is killed.
	Dir string
	// KeepData keeps the fresh directory too.
	KeepData bool
	// Durable turns fsync on. Off, a server survives the death of its
	// processes but not of the machine.
	Durable bool
	// DecodingWorkMem is logical_decoding_work_mem, such as "64kB"; empty
	// keeps the server's own default.
	DecodingWorkMem string
	// TCP lets the server listen on 127.0.0.1 too, at a free port, for the
	// user postgres with a random password that DSN carries.
	TCP bool
	// Settings are further server settings; they win over those of this
	// package. An empty value removes a setting.
	Settings map[string]string
}

// settings returns the server's configuration by name.
func (o Options) settings() map[string]string {
	conf := map[string]string{
		"wal_level":                       "logical",
		"max_replication_slots":           "40",
		"max_wal_senders":                 "40",
		"max_prepared_transactions":       "20",
		"max_connections":                 "200",
		"max_worker_processes":            "24",
		"max_logical_replication_workers": "12",
		"fsync":                           "off",
		"timezone":                        "UTC",
		"log_timezone":                    "UTC",
		"lc_messages":                     "C",
		"logging_collector":               "off",
		"log_destination":                 "stderr",
		"log_line_prefix":                 "%m [%p] %q%d %a ",
		"unix_socket_permissions":         "0700",
	}
	if o.Durable {
		conf["fsync"] = "on"
	}
	if o.DecodingWorkMem != "" {
		conf["logical_decoding_work_mem"] = o.DecodingWorkMem
	}
	for name, value := range o.Settings {
		if value == "" {
			delete(conf, name)
			continue
		}
		conf[name] = value
	}
	return conf
}

// render writes settings in the form of postgresql.conf, sorted.
func render(conf map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(conf[name]))
	}
	return b.String()
}
