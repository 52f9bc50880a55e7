package config

import (
	"fmt"
	"strings"
)

// ExampleYAML is a whole file for docs and for `config show --example`; a test loads it
// and checks it against the schema.
const ExampleYAML = `# replicant.yaml; the password is in PGPASSWORD.
source: postgres://replicant@db.internal:5432/shop?sslmode=verify-full
slot: replicant_shop
publications: [shop]

sink:
  address: unix:/run/replicant/sink.sock

delivery:
  mode: auto
  max_transactions: 1000

drain_timeout: 20s
`

// Markdown is docs/configuration.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Configuration

<!-- Made from core/config by "replicant-sidecar config schema --markdown"; do not edit. -->

Every setting has three names: a key of the YAML file (` + "`--config FILE` or `REPLICANT_CONFIG`" + `), an environment
variable and a flag. A flag wins over the environment, that over the file, that over the default. An unknown key is
an error, and all faults are reported at once:

    replicant-sidecar config lint replicant.yaml
    replicant-sidecar config show --config replicant.yaml     # each value with its origin, secrets masked
    replicant-sidecar config schema                           # JSON schema for editors

Durations are written ` + "`500ms`, `10s`, `1m30s`; sizes `512KiB`, `16MiB`, `1GiB`" + `. A list is a YAML list in the file and
comma-separated elsewhere. A variable that is set to nothing counts as set.

` + "```yaml\n" + ExampleYAML + "```\n")
	for _, group := range FlagGroups() {
		fmt.Fprintf(&b, "\n## %s\n\n| key | environment, flag | form | default | |\n|---|---|---|---|---|\n", group)
		for i := range Keys() {
			if k := &Keys()[i]; k.Group == group {
				fmt.Fprintf(&b, "| `%s` | `%s` `--%s` | %s | %s | %s |\n", k.Path, k.Env, k.Flag,
					strings.ReplaceAll(k.kind(), "|", ", "), k.defaultText(), k.Description)
			}
		}
	}
	return b.String()
}

func (k *Key) defaultText() string {
	switch {
	case k.Shown != "":
		return k.Shown
	case k.Default == "":
		return "none"
	}
	return "`" + k.Default + "`"
}

// DefaultText is the default as help shows it, empty when there is none to speak of.
func (k *Key) DefaultText() string {
	switch {
	case k.Shown != "":
		return k.Shown
	case k.Default == "false" || k.Default == "0":
		return ""
	}
	return k.Default
}
