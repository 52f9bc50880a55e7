package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

func load(t *testing.T, file string, env []string, args []string, required ...string) (*Loaded, error) {
	t.Helper()
	from := Sources{Environ: func() []string { return env }}
	if file != "" {
		from.Path = filepath.Join(t.TempDir(), "replicant.yaml")
		require.NoError(t, os.WriteFile(from.Path, []byte(file), 0o600))
	}
	from.Flags = pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(from.Flags, nil)
	require.NoError(t, from.Flags.Parse(args))
	return Load(from, required...)
}

func TestDefaultsAreValidAndWrittenAsAUserWould(t *testing.T) {
	got, err := load(t, "", nil, nil)
	require.NoError(t, err)
	require.Equal(t, "replicant", got.Slot)
	require.Equal(t, "replicant", got.StreamID)
	require.Equal(t, []string{"replicant"}, got.Publications)
	require.Equal(t, Duration(10*time.Second), got.SenderTimeout)
	require.Equal(t, Size(16<<20), got.Delivery.MaxSpan)
	for i := range Keys() {
		k := &Keys()[i]
		require.NotEmpty(t, k.Description, k.Path)
		require.NotEmpty(t, k.Group, k.Path)
		require.Equal(t, "REPLICANT_"+strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_")), k.Env)
		if k.Default != "" {
			require.Equal(t, k.Default, k.Text(&got.Config), k.Path)
		}
		require.Equal(t, "default", got.Origin(k.Path).String(), k.Path)
	}
}

// Each layer wins over those below it, key by key, and the origin says which did.
func TestPrecedenceAndOrigin(t *testing.T) {
	file := "slot: from_file\ndrain_timeout: 2s\nsink:\n  wait: 1s\n  address: unix:/a\ndelivery: {mode: batch}\n"
	env := []string{"REPLICANT_DRAIN_TIMEOUT=3s", "REPLICANT_SINK_WAIT=2s", "PATH=/x"}
	got, err := load(t, file, env, []string{"--sink-wait=3s", "--adopt-slot"})
	require.NoError(t, err)
	require.Equal(t, "from_file", got.Slot)
	require.Equal(t, "from_file", got.StreamID)
	require.Equal(t, Duration(3*time.Second), got.DrainTimeout)
	require.Equal(t, Duration(3*time.Second), got.Sink.Wait)
	require.Equal(t, "unix:/a", got.Sink.Address)
	require.Equal(t, "batch", got.Delivery.Mode)
	require.Equal(t, 1000, got.Delivery.MaxTransactions)
	require.True(t, got.AdoptSlot)
	require.Regexp(t, `^file .*replicant.yaml:1$`, got.Origin("slot").String())
	require.Equal(t, "env REPLICANT_DRAIN_TIMEOUT", got.Origin("drain_timeout").String())
	require.Equal(t, "flag --sink-wait", got.Origin("sink.wait").String())
	require.Equal(t, "default", got.Origin("log.level").String())
}

func TestEmptyVariableCountsAsSet(t *testing.T) {
	got, err := load(t, "", []string{"REPLICANT_ADMIN_LISTEN="}, nil)
	require.NoError(t, err)
	require.Empty(t, got.Admin.Listen)
	_, err = load(t, "", []string{"REPLICANT_PUBLICATIONS=", "REPLICANT_STREAM_ID="}, nil)
	require.Len(t, Faults(err), 2)
}

func TestPublicationsTakeAnyPostgresName(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "B c"}, {`we"ird`, "com,ma"}, {"ünï", "line\nbreak"}, {" "}} {
		got, err := load(t, "", []string{"REPLICANT_PUBLICATIONS=" + joinList(names)}, nil)
		require.NoError(t, err)
		require.Equal(t, names, got.Publications)
	}
	got, err := load(t, "", nil, []string{"--publications=a,b", "--publications", `"c,d"`})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c,d"}, got.Publications)
	got, err = load(t, "publications:\n- 'it''s'\n- \"a\\nb\"\n", nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"it's", "a\nb"}, got.Publications)
}

// One load reports the faults of all layers and of the values as such.
func TestEveryFaultAtOnce(t *testing.T) {
	file := `slto: x
sink:
  wait: 10
  adress: unix:/a
delivery:
  mode: fast
  max_span: 16MB
drain_timeout: 0s
publications: replicant
`
	env := []string{"REPLICANT_SENDER_TIMEOUT=soon", "REPLICANT_SLOT=Nope"}
	got, err := load(t, file, env, []string{"--log-level=loud", "--accept-timeline=-1"}, "source", "sink.address")
	require.NotNil(t, got)
	h, ok := core.AsHalt(err)
	require.True(t, ok)
	require.Equal(t, core.HaltConfigInvalid, h.Code)
	require.Equal(t, core.ExitUsage, core.ExitCode(err))
	var keys []string
	for _, f := range Faults(err) {
		keys = append(keys, fmt.Sprintf("%s|%s:%d:%d", f.Key, filepath.Base(f.Place), f.Line, f.Column))
	}
	require.ElementsMatch(t, []string{
		"|replicant.yaml:1:1", "sink.wait|replicant.yaml:3:9", "|replicant.yaml:4:3",
		"delivery.mode|replicant.yaml:6:9", "delivery.max_span|replicant.yaml:7:13",
		"publications|replicant.yaml:9:15", "sender_timeout|REPLICANT_SENDER_TIMEOUT:0:0",
		"log.level|--log-level:0:0", "accept_timeline|--accept-timeline:0:0",
		"source|.:0:0", "sink.address|.:0:0", "slot|REPLICANT_SLOT:0:0", "drain_timeout|replicant.yaml:8:16",
	}, keys)
}

func TestUnknownKeyShowsLineCaretAndNeighbours(t *testing.T) {
	_, err := load(t, "# a\nslot: x\nsink:\n  adress: \"unix:/a\"\n  wait: 1s\nstream_id: y\nlog:\n", nil, nil)
	faults := Faults(err)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Text, `unknown key "sink.adress" (did you mean "sink.address"?)`)
	require.Equal(t, `    2 | slot: x
    3 | sink:
>   4 |   adress: (not shown)
      |   ^
    5 |   wait: 1s
    6 | stream_id: y
`, faults[0].Snippet)
}

func TestFileFormsThatAreRefused(t *testing.T) {
	for _, c := range []struct{ file, text string }{
		{"slot: 12\n", "slot wants text; put it in quotes"},
		{"slot:\n", "slot has no value"},
		{"slot: [a]\n", "wants one value"},
		{"slot: &a x\nstream_id: *a\n", "wants one value"},
		{"sink: x\n", "sink wants keys with values below it"},
		{"- a\n", "wants keys with values below it"},
		{"publications: [a, 1]\n", "no text"},
		{"publications: []\n", "at least one name"},
		{"a: 1\n---\nb: 2\n", "second YAML document"},
		{"slot: a\nslot: b\n", "already defined"},
		{"slot: 'a\n", "quoted"},
		{"<<: {slot: a}\n", "merge keys"},
		{"adopt_slot: yes\n", "is true or false"},
		{"accept_timeline: 4294967296\n", "from 0 to 4294967295"},
		{"sink: {wait: -1s}\n", "negative"},
		{"delivery: {max_span: 1.3B}\n", "whole number of bytes"},
		{"sink: {tls: {cert: a}}\n", "belong together"},
		{"sink: {address: 'example.com:1'}\n", "not on this machine"},
		{"sink: {insecure: true, tls: {ca: a}}\n", "excludes sink.tls"},
		{"admin: {progress_deadline: 0}\n", "more than 0"},
		{"sink: {address: 'example.com'}\n", "host:port"},
		{"sink: {address: 'unix:/" + strings.Repeat("x", 120) + "'}\n", "a unix socket takes 103"},
		{"sink: {address: 'example.com:1', token_file: a, insecure: true}\n", "in clear"},
		{"status_interval: 10s\n", "less than sender_timeout"},
		{"admin: {listen: '', pprof: true}\n", "needs admin.listen"},
		{"admin: {listen: '9464'}\n", "host:port"},
		{"publications: [a, a]\n", "named twice"},
		{"publications: ['" + strings.Repeat("x", 64) + "']\n", "1 to 63 bytes"},
	} {
		_, err := load(t, c.file, nil, nil)
		require.ErrorContains(t, errors.Join(faultErrors(err)...), c.text, c.file)
	}
	for _, ok := range []string{"", "# nothing\n", "sink:\n# address: x\n", "---\nslot: a\n", "sink: {wait: 0}\n", "delivery: {max_span: 1.5MiB}\n"} {
		_, err := load(t, ok, nil, nil)
		require.NoError(t, err, ok)
	}
}

func faultErrors(err error) (all []error) {
	for _, f := range Faults(err) {
		all = append(all, f)
	}
	return all
}

func TestMissingFile(t *testing.T) {
	_, err := Load(Sources{Path: filepath.Join(t.TempDir(), "none.yaml")})
	require.ErrorContains(t, err, "no such file")
	_, err = Load(Sources{Path: t.TempDir()})
	require.ErrorContains(t, err, "directory")
}

func TestNearVariableIsANoteAndAStrangersIsNot(t *testing.T) {
	got, err := load(t, "", []string{"REPLICANT_SLTO=x", "REPLICANT_SINK_PORT=tcp://10.0.0.1:1", "REPLICANT_CONFIG=a"}, nil)
	require.NoError(t, err)
	require.Len(t, got.Notes, 1)
	require.Contains(t, got.Notes[0], "REPLICANT_SLOT")
	require.NotContains(t, got.Notes[0], "=x")
}

const secret = "hunter2"

// No way of writing the password, right or wrong, shows it anywhere.
func TestSecretsAreNeverShown(t *testing.T) {
	sources := []string{
		"postgres://app:hunter2@db:5432/shop?sslmode=require", "postgres://db/shop?user=app&password=hunter2",
		"host=db user=app password=hunter2", `host=db password='hun\'ter2hunter2' dbname=shop`, "password = hunter2 host=db",
		"postgres://app:x/hunter2@db/shop", "postgres://app:1#hunter2@db/shop", "postgres://app:1?hunter2@db/shop",
		"postgres://app:1/hunter2@db/shop", "postgres://app:%zzhunter2@db/shop", "hunter2", "host=db hunter2", "mysql://app:hunter2@db",
		"host=db sslpassword=hunter2", "host=db passwort=hunter2",
	}
	for _, source := range sources {
		quoted := `"` + strings.ReplaceAll(source, `\`, `\\`) + `"`
		files := []string{
			"source: " + quoted + "\nslto: x\n", "sourc: " + quoted + "\n", "source:\n  dsn: " + quoted + "\n",
			"source: >\n  " + source + "\nslto: x\n", "slto: x\nsource: " + quoted, "source: " + quoted + "\n bad\n- x: [\n",
			"sourcee: |\n  " + source + "\n\nslot: [\n", "sink: " + quoted + "\n", "- " + quoted + "\n", quoted + "\n",
			"source: [" + quoted + "]\n", "{source: " + quoted + ", slto: 1}\n", "source: " + quoted + "\nsource: " + quoted + "\n",
			"slto: 1\n# source: " + quoted + "\n", "source: !!str " + quoted + "\n", "? " + quoted + "\n: x\n",
		}
		var said strings.Builder
		for _, file := range files {
			got, err := load(t, file, nil, nil)
			writeEverything(&said, got, err)
		}
		got, err := load(t, "", []string{"REPLICANT_SOURCE=" + source}, nil)
		writeEverything(&said, got, err)
		got, err = load(t, "", nil, []string{"--source", source})
		writeEverything(&said, got, err)
		require.Equal(t, source, got.Source.Reveal())
		if !strings.Contains(source, "@") && strings.HasPrefix(source, "hunter2") {
			continue // a bare word as a key of a file is the key's own name
		}
		for line := range strings.Lines(said.String()) {
			if strings.Contains(line, secret) {
				t.Fatalf("%s: the secret is in %.300q", source, line)
			}
		}
	}
}

func writeEverything(b *strings.Builder, got *Loaded, err error) {
	fmt.Fprintln(b, err)
	for _, f := range Faults(err) {
		fmt.Fprintln(b, f, f.Snippet)
	}
	fmt.Fprintf(b, "%v %+v %#v\n", got.Config, got.Config, got.Config)
	redacted := got.Redacted()
	fmt.Fprintln(b, redacted, redacted.Source.Reveal(), got.Notes)
	_ = json.NewEncoder(b).Encode(got.Config)
	for i := range Keys() {
		fmt.Fprintln(b, Keys()[i].Text(&got.Config), Keys()[i].Any(&got.Config))
	}
}

func TestRedactedKeepsWhatHelps(t *testing.T) {
	require.Equal(t, "host=db:5432 dbname=shop user=app password=*** sslmode=require",
		DSN("postgres://app:pw@db:5432/shop?sslmode=require").String())
	require.Equal(t, "host=db user=app password=***", DSN("host=db user=app password='p w'").String())
	require.Equal(t, "", DSN("").String())
}

func TestSizesAndDurations(t *testing.T) {
	for text, want := range map[string]Size{"0B": 0, "1B": 1, "1KiB": 1024, "1.5GiB": 3 << 29, "16MiB": 16 << 20} {
		got, problem := parseSize(text)
		require.Empty(t, problem, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "16", "16MB", "-1MiB", "1 MiB", "0x1B", "1e3B", "99999999999GiB", "MiB"} {
		_, problem := parseSize(text)
		require.Contains(t, problem, sizeForm, text)
	}
	for _, text := range []string{"", "10", "-1s", "1d", "s", "1 s"} {
		_, problem := parseDuration(text)
		require.Contains(t, problem, durationForm, text)
	}
	require.Equal(t, "1m30s", Duration(90*time.Second).String())
	require.Equal(t, "1h", Duration(time.Hour).String())
	require.Equal(t, "10s", Duration(10*time.Second).String())
	require.Equal(t, "0s", Duration(0).String())
	require.Equal(t, "1537B", Size(1537).String())
	require.Equal(t, "0B", Size(0).String())
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(SchemaID, doc))
	schema, err := c.Compile(SchemaID)
	require.NoError(t, err)
	return schema
}

func valid(t *testing.T, schema *jsonschema.Schema, text string) error {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	require.NoError(t, err)
	return schema.Validate(doc)
}

// The schema and the reader agree, on good files and on bad ones.
func TestSchemaAgreesWithTheReader(t *testing.T) {
	schema := compiled(t)
	require.NoError(t, valid(t, schema, ExampleYAML))
	_, err := load(t, ExampleYAML, nil, nil, "source", "sink.address")
	require.NoError(t, err)
	require.NoError(t, valid(t, schema, "sink: {wait: 0}\n"))
	for _, bad := range []string{
		"slto: x\n", "sink: {adress: x}\n", "sender_timeout: 10\n", "sender_timeout: 10x\n", "delivery: {max_span: 16MB}\n", "delivery: {max_span: 16}\n",
		"delivery: {mode: fast}\n", "adopt_slot: 1\n", "publications: a\n", "publications: [1]\n", "slot: 1\n", "accept_timeline: x\n",
	} {
		require.Error(t, valid(t, schema, bad), bad)
		_, err := load(t, bad, nil, nil)
		require.Error(t, err, bad)
	}
}

func TestConfigurationPageHasNotDrifted(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	require.Equal(t, Markdown(), string(page), `run: go run ./cmd/replicant-sidecar config schema --markdown > docs/configuration.md`)
}

func FuzzReadFile(f *testing.F) {
	f.Add("sink: {wait: 1s}\n")
	f.Add("a: &x [1, *x]\n? b\n: c\n--- |\n x\n")
	f.Fuzz(func(_ *testing.T, text string) {
		got := readFile("f", []byte(text))
		for _, fault := range got.faults {
			_ = fault.Error()
		}
	})
}
