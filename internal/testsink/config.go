package testsink

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/internal/failpoint"
)

// The environment of the program.
const (
	EnvDSN          = "TESTSINK_DSN"           // where to write
	EnvKind         = "TESTSINK_KIND"          // mirror, log or both
	EnvProfile      = "TESTSINK_PROFILE"       // own or lib
	EnvWithout      = "TESTSINK_WITHOUT"       // capabilities to do without, "BATCH,LARGE_TRANSACTION"
	EnvHoles        = "TESTSINK_HOLES"         // store or ignore rows with a column that is not known
	EnvSchema       = "TESTSINK_SCHEMA"        // accept or decline destructive changes
	EnvBreach       = "TESTSINK_BREACH"        // wrong_lsn, refuse or panic, "@n" from the n-th unit on
	EnvRequestBytes = "TESTSINK_REQUEST_BYTES" // largest request
	EnvPreferred    = "TESTSINK_PREFERRED"     // bytes at which a batch is full
	EnvTransactions = "TESTSINK_TRANSACTIONS"  // most transactions in a batch
)

const (
	holesStore    = "store"
	holesIgnore   = "ignore"
	profileOwn    = "own"
	profileLib    = "lib"
	schemaAccept  = "accept"
	schemaDecline = "decline"

	// envFailpoints is only looked into for rowPoint.
	envFailpoints = "REPLICANT_FAILPOINTS"
	rowPoint      = "sink.row="
)

// Kind says what is written.
type Kind string

// The kinds. Both writes rows and log in one transaction and is guarded as a mirror.
const (
	KindMirror Kind = "mirror"
	KindLog    Kind = "log"
	KindBoth   Kind = "both"
)

func (k Kind) mirror() bool { return k != KindLog }
func (k Kind) log() bool    { return k != KindMirror }

// Config is how the sink behaves. The zero value of a field is its default.
type Config struct {
	DSN  string
	Kind Kind
	// Lib takes checkpoint and stored fence away: the sidecar keeps the position.
	Lib bool
	// Without are capabilities that are not advertised, by their names in the contract.
	Without []string
	// DeclineDestructive refuses schema changes that lose something.
	DeclineDestructive bool
	// IgnoreHoles leaves out a streamed row of which a column is not known; otherwise it
	// is stored with NULL there.
	IgnoreHoles bool
	// Breach makes the sink break the contract.
	Breach Breach
	Limits core.SinkLimits
	// Step writes row by row.
	Step bool
}

// FromEnvironment reads the settings. What is not understood is an error.
func FromEnvironment(getenv func(string) string) (Config, error) {
	c := Config{DSN: getenv(EnvDSN), Kind: KindMirror}
	var errs []error
	pick := func(name string, allowed ...string) string {
		text := getenv(name)
		for _, a := range allowed {
			if text == a {
				return text
			}
		}
		if text != "" {
			errs = append(errs, fmt.Errorf("%s is one of %s", name, strings.Join(allowed, ", ")))
		}
		return ""
	}
	number := func(name string) int {
		text := getenv(name)
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			errs = append(errs, fmt.Errorf("%s is a number above zero", name))
		}
		return n
	}
	if c.DSN == "" {
		errs = append(errs, errors.New(EnvDSN+" is not set"))
	}
	if kind := pick(EnvKind, string(KindMirror), string(KindLog), string(KindBoth)); kind != "" {
		c.Kind = Kind(kind)
	}
	c.Lib = pick(EnvProfile, profileOwn, profileLib) == profileLib
	c.IgnoreHoles = pick(EnvHoles, holesStore, holesIgnore) == holesIgnore
	c.DeclineDestructive = pick(EnvSchema, schemaAccept, schemaDecline) == schemaDecline
	c.Limits = core.SinkLimits{
		RequestBytes: number(EnvRequestBytes), PreferredBytes: number(EnvPreferred), TransactionsPerBatch: number(EnvTransactions),
	}
	var err error
	if c.Without, err = capabilities(getenv(EnvWithout)); err != nil {
		errs = append(errs, err)
	}
	if c.Breach, err = parseBreach(getenv(EnvBreach)); err != nil {
		errs = append(errs, err)
	}
	c.Step = stepping()
	return c, errors.Join(errs...)
}

// stepping reports whether sink.row is armed.
func stepping() bool {
	return failpoint.Enabled && strings.Contains(os.Getenv(envFailpoints), rowPoint)
}

func capabilities(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	list := strings.Split(text, ",")
	for _, name := range list {
		known := false
		for _, c := range core.AllCapabilities() {
			known = known || c.String() == name
		}
		if !known {
			return nil, fmt.Errorf("%s: %q is no capability", EnvWithout, name)
		}
	}
	return list, nil
}
