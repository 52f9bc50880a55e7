package assembler

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/pgoutput"
	"github.com/replicant-sidecar/replicant-sidecar/internal/golden"
	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.txt anew from the recorded streams")

// stories are read from bytes to transactions and compared with text that people can
// check. STORY.pgMAJOR.txt holds from that major up to the next one that has a file.
var stories = []string{
	"basic_dml", "dml_kinds", "identity", "toast", "toast_key", "truncate_many", "names", "empty_tx", "ddl_mid",
	"partition_root", "partition_leaf", "partition_identity", "origin", "generated", "column_list", "row_filter", "row_filter_key", "types", "messages",
}

func TestCanonicalText(t *testing.T) {
	if *rewrite {
		rewriteTexts(t)
	}
	for _, story := range stories {
		texts := storyTexts(t, story)
		require.NotEmpty(t, texts, story)
		var want []byte
		for major := oldestMajor; major <= newestMajor; major++ {
			newer, err := os.ReadFile(textPath(story, major))
			if err == nil {
				want = newer
			}
			if text, recorded := texts[major]; recorded {
				require.Equal(t, string(want), text, "%s on Postgres %d", story, major)
			}
		}
	}
}

func rewriteTexts(t *testing.T) {
	old, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, path := range old {
		require.NoError(t, os.Remove(path))
	}
	for _, story := range stories {
		last := ""
		texts := storyTexts(t, story)
		for major := oldestMajor; major <= newestMajor; major++ {
			if text := texts[major]; text != "" && text != last {
				require.NoError(t, os.WriteFile(textPath(story, major), []byte(text), 0o644))
				last = text
			}
		}
	}
}

const oldestMajor, newestMajor = 14, 18

func textPath(story string, major int) string {
	return filepath.Join("testdata", fmt.Sprintf("%s.pg%d.txt", story, major))
}

func storyTexts(t *testing.T, story string) map[int]string {
	texts := map[int]string{}
	for major := oldestMajor; major <= newestMajor; major++ {
		r, err := golden.Read(filepath.Join(recordings, fmt.Sprintf("%s.pg%d.pgout", story, major)))
		if os.IsNotExist(err) && len(texts) == 0 && major < newestMajor {
			continue // the story needs a newer Postgres
		}
		require.NoError(t, err)
		for _, s := range r.Sessions {
			if s.Protocol == 1 && !s.Binary() {
				texts[major] += sessionText(t, s)
			}
		}
	}
	return texts
}

func sessionText(t *testing.T, s golden.Session) string {
	p := printer{shown: map[*core.Relation]bool{}}
	p.line("session")
	d, a := pgoutput.NewDecoder(pgoutput.Options{}), New(Options{})
	var m pgoutput.Message
	for _, frame := range s.Messages() {
		require.NoError(t, d.Decode(frame, &m))
		step, err := a.Push(&m)
		require.NoError(t, err)
		switch step {
		case StepCommit:
			tx, _ := a.Take()
			p.transaction(tx)
		case StepSchemaChange:
			c := a.SchemaChange()
			p.line("schema change: %s %s %s added=%v dropped=%v retyped=%v", c.Kind, c.What, c.After, c.Added, c.Dropped, c.Retyped)
		case StepMessage:
			m := a.Message()
			p.line("message outside: %q %q", m.Prefix, m.Content)
		}
	}
	return p.String()
}

// printer leaves out what differs from recording to recording: ids, LSNs, times.
type printer struct {
	strings.Builder
	shown map[*core.Relation]bool
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *printer) transaction(tx core.Transaction) {
	p.line("transaction origin=%q", tx.Origin)
	for _, c := range tx.Changes {
		switch {
		case c.Truncate != nil:
			for _, r := range c.Truncate.Relations {
				p.relation(r)
			}
			p.line("  truncate %v cascade=%t restart=%t", c.Truncate.Relations, c.Truncate.Cascade, c.Truncate.RestartIdentity)
		case c.Message != nil:
			p.line("  message %q %q", c.Message.Prefix, c.Message.Content)
		default:
			p.relation(c.Relation)
			p.line("  %s %s", c.Op, c.Relation)
			if c.OldKind != core.OldNone {
				p.line("    old %s %s", map[core.OldKind]string{core.OldKey: "key", core.OldFull: "full"}[c.OldKind], rowText(c.Old))
			}
			if !c.New.IsZero() {
				p.line("    new %s", rowText(c.New))
			}
		}
	}
}

func (p *printer) relation(r *core.Relation) {
	if p.shown[r] {
		return
	}
	p.shown[r] = true
	p.line("  relation %s identity=%s", r, r.Identity)
	for _, c := range r.Columns {
		name, mark := c.TypeName, ""
		if name == "" && c.TypeOID < firstUserOID {
			name = fmt.Sprint(c.TypeOID)
		}
		if c.Identity {
			mark = " identity"
		}
		p.line("    %s type=%s modifier=%d%s", c.Name, name, c.TypeModifier, mark)
	}
}

const firstUserOID = 16384

func rowText(t core.Tuple) string {
	var parts []string
	for _, v := range t.Values() {
		part := string(v.Kind)
		if v.Kind == core.ValueText {
			const shown = 48
			part = fmt.Sprintf("%q", v.Text)
			if len(v.Text) > shown {
				part = fmt.Sprintf("%q and %d more", v.Text[:8], len(v.Text)-8)
			}
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " | ")
}
