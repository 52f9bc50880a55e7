package config

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of single settings.
const (
	nameMax       = 63 // bytes, Postgres' NAMEDATALEN - 1
	streamIDMax   = 200
	socketPathMax = 103 // bytes that sockaddr_un takes on every system
	batchMax      = 1_000_000

	connectionsMax = 64
	chunkRowsMax   = 100_000 // of one chunk, which is held in memory
	timeoutMin     = time.Second
)

var slotRE = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)

// Validate finds everything that is wrong with the values. required are paths of keys
// that must not be empty. The result joins *Fault values without places.
func (c *Config) Validate(required ...string) error {
	v := &validator{}
	for _, path := range required {
		if key, _ := findKey(path); key != nil && key.value(c).IsZero() {
			v.add(path, "is required: set it in the file, as %s or as --%s", key.Env, key.Flag)
		}
	}
	v.source(c)
	v.sink(&c.Sink)
	v.delivery(&c.Delivery)
	v.store(c)
	v.snapshot(c)
	v.limits(c)
	v.enums(c)
	v.admin(&c.Admin)
	return errors.Join(v.faults...)
}

type validator struct{ faults []error }

func (v *validator) add(key, format string, args ...any) {
	v.faults = append(v.faults, &Fault{Key: key, Text: fmt.Sprintf(format, args...)})
}

func (v *validator) source(c *Config) {
	if c.Source != "" && c.Source.parts() == nil {
		v.add("source", "is no address: it wants postgres://user@host:5432/database or host=... dbname=... (its value is not shown)")
	}
	if !slotRE.MatchString(c.Slot) {
		v.add("slot", "wants 1 to 63 lower-case letters, digits and underscores")
	}
	if c.StreamID == "" && c.Slot != "" || len(c.StreamID) > streamIDMax {
		v.add("stream_id", "wants 1 to %d bytes", streamIDMax)
	}
	if strings.ContainsFunc(c.StreamID, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		v.add("stream_id", "holds a control character")
	}
	v.publications(c.Publications)
	if d := time.Duration(c.SenderTimeout); d < timeoutMin {
		v.add("sender_timeout", "must be at least %s", Duration(timeoutMin))
	}
	if c.StatusInterval <= 0 {
		v.add("status_interval", "must be more than 0")
	} else if c.StatusInterval >= c.SenderTimeout && time.Duration(c.SenderTimeout) >= timeoutMin {
		v.add("status_interval", "must be less than sender_timeout, or the server gives the connection up in between")
	}
}

func (v *validator) publications(names []string) {
	if len(names) == 0 {
		v.add("publications", "wants at least one name")
	}
	for i, name := range names {
		switch {
		case name == "" || len(name) > nameMax || strings.ContainsRune(name, 0):
			v.add("publications", "entry %d: a name has 1 to %d bytes", i+1, nameMax)
		case slices.Contains(names[:i], name):
			v.add("publications", "entry %d: %q is named twice", i+1, name)
		}
	}
}

func (v *validator) sink(s *Sink) {
	path, isUnix := strings.CutPrefix(s.Address, "unix:")
	switch {
	case s.Address == "":
	case isUnix:
		v.socket(path)
	default:
		if problem := hostPort(s.Address, false); problem != "" {
			v.add("sink.address", "wants unix:/path/to.sock or host:port; %s", problem)
		} else if s.TLS == (TLS{}) && !s.Insecure && !isLoopback(s.Address) {
			v.add("sink.address", "is not on this machine: give sink.tls.ca, or say sink.insecure")
		}
	}
	hasTLS := s.TLS != TLS{}
	if hasTLS && s.Insecure {
		v.add("sink.insecure", "excludes sink.tls")
	}
	if (s.TLS.Cert == "") != (s.TLS.Key == "") {
		v.add("sink.tls.cert", "and sink.tls.key belong together: give both or neither")
	}
	if s.TokenFile != "" && s.Insecure && !isUnix && !isLoopback(s.Address) {
		v.add("sink.insecure", "would send the token of sink.token_file over the network in clear")
	}
}

func (v *validator) socket(path string) {
	path = "/" + strings.TrimLeft(path, "/")
	switch {
	case strings.HasSuffix(path, "/"):
		v.add("sink.address", "names a directory; it wants unix:/path/to.sock")
	case len(path) > socketPathMax:
		v.add("sink.address", "has a path of %d bytes; a unix socket takes %d", len(path), socketPathMax)
	}
}

func (v *validator) delivery(d *Delivery) {
	if d.MaxTransactions < 1 || d.MaxTransactions > batchMax {
		v.add("delivery.max_transactions", "wants 1 to %d", batchMax)
	}
	if d.MaxSpan < 1 {
		v.add("delivery.max_span", "must be more than 0")
	}
	if time.Duration(d.MaxDelay) > time.Minute {
		v.add("delivery.max_delay", "must be at most 1m")
	}
}

func (v *validator) snapshot(c *Config) {
	if c.SnapshotRedo && c.Snapshot != "initial" {
		v.add("snapshot_redo", "belongs to snapshot: initial")
	}
	if c.Snapshot == "initial" || c.Snapshot == "incremental" {
		if c.GoForwardOnly {
			v.add("go_forward_only", "excludes snapshot: %s, which copies the rows that exist", c.Snapshot)
		}
		if c.AdoptSlot {
			v.add("adopt_slot", "excludes snapshot: %s, which begins with a new slot", c.Snapshot)
		}
	}
	if c.Copy.Connections < 1 || c.Copy.Connections > connectionsMax {
		v.add("copy.connections", "wants 1 to %d", connectionsMax)
	}
	if c.Copy.ChunkRows < 1 || c.Copy.ChunkRows > chunkRowsMax {
		v.add("copy.chunk_rows", "wants 1 to %d", chunkRowsMax)
	}
	if c.Copy.MaxXminAge < 0 {
		v.add("copy.max_xmin_age", "must not be negative")
	}
}

func (v *validator) limits(c *Config) {
	if c.Spill.Max < 1 {
		v.add("spill.max", "must be more than 0")
	}
	if c.DrainTimeout <= 0 {
		v.add("drain_timeout", "must be more than 0")
	}
}

// enums guards a Config that was made in Go; a loaded one was checked while it was read.
func (v *validator) enums(c *Config) {
	for i := range Keys() {
		k := &Keys()[i]
		if len(k.Enum) > 0 && !slices.Contains(k.Enum, k.value(c).String()) {
			v.add(k.Path, "is one of %s", strings.Join(k.Enum, ", "))
		}
	}
}

func (v *validator) admin(a *Admin) {
	if a.ProgressDeadline <= 0 {
		v.add("admin.progress_deadline", "must be more than 0")
	}
	if a.Listen == "" {
		if a.Pprof {
			v.add("admin.pprof", "needs admin.listen, which is off")
		}
		return
	}
	if problem := hostPort(a.Listen, true); problem != "" {
		v.add("admin.listen", "wants host:port or nothing; %s", problem)
	}
}

// hostPort returns what is wrong with host:port; a listener may ask for any host or port.
func hostPort(address string, listener bool) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "an IPv6 address stands in brackets, and the port is not optional"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0 && !listener:
		return "the port is a number from 1 to 65535"
	case host == "" && !listener:
		return "the host is missing"
	case strings.ContainsAny(host, " /@"):
		return "the host is no name and no IP address"
	}
	return ""
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
