package sinkv1_test

import (
	"os"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	sinkv1 "github.com/replicant-sidecar/replicant-sidecar/proto/sink/v1"
)

const docPath = "../../../docs/protocol.md"

var (
	protoPaths = []string{"types.proto", "sink.proto", "two_phase.proto"}

	// A rule is stated where its id stands in bold (page) or opens a comment line
	// (.proto), and mentioned wherever else it occurs.
	docRule   = regexp.MustCompile(`\*\*([SPWVLE]-\d{3,4})\*\*`)
	protoRule = regexp.MustCompile(`(?m)^\s*//   ([SPWVLE]-\d{3,4})  \S`)
	anyRule   = regexp.MustCompile(`\b[SPWVLE]-\d{3,4}\b`)
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func protoText(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, path := range protoPaths {
		all.WriteString(read(t, path))
	}
	return all.String()
}

// stated returns the ids of the rules that text states, each of them once.
func stated(t *testing.T, where string, rule *regexp.Regexp, text string) []string {
	t.Helper()
	var ids []string
	seen := map[string]bool{}
	for _, match := range rule.FindAllStringSubmatch(text, -1) {
		require.False(t, seen[match[1]], "%s states %s twice", where, match[1])
		seen[match[1]] = true
		ids = append(ids, match[1])
	}
	sort.Strings(ids)
	return ids
}

func TestRulesOfProtoAndPageAreTheSame(t *testing.T) {
	inProto := stated(t, ".proto", protoRule, protoText(t))
	inPage := stated(t, docPath, docRule, read(t, docPath))
	require.NotEmpty(t, inProto)
	require.Equal(t, inProto, inPage)
}

func TestMentionedRulesExist(t *testing.T) {
	known := map[string]bool{}
	for _, id := range stated(t, docPath, docRule, read(t, docPath)) {
		known[id] = true
	}
	texts := map[string]string{docPath: read(t, docPath), ".proto": protoText(t)}
	for _, path := range []string{"limits.go", "reasons.go"} {
		texts[path] = read(t, path)
	}
	for where, text := range texts {
		for _, id := range anyRule.FindAllString(text, -1) {
			require.True(t, known[id], "%s mentions %s, which is stated nowhere", where, id)
		}
	}
}

func services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		sinkv1.File_sink_v1_sink_proto, sinkv1.File_sink_v1_two_phase_proto,
	} {
		for i := range file.Services().Len() {
			all = append(all, file.Services().Get(i))
		}
	}
	return all
}

// rpcComment is the comment above an rpc in the .proto files.
func rpcComment(t *testing.T, text, name string) string {
	t.Helper()
	at := strings.Index(text, "\n  rpc "+name+"(")
	require.Positive(t, at, "no rpc %s", name)
	lines := strings.Split(text[:at], "\n")
	first := len(lines)
	for first > 0 && strings.HasPrefix(lines[first-1], "  //") {
		first--
	}
	return strings.Join(lines[first:], "\n")
}

// pageSection is what the page says under the heading of a call.
func pageSection(t *testing.T, page, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n### "+name+"\n")
	require.True(t, found, "the page has no section %s", name)
	if end := regexp.MustCompile(`\n##+ `).FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

func TestEveryCallIsExplained(t *testing.T) {
	text, page := protoText(t), read(t, docPath)
	reason := regexp.MustCompile(`\(([A-Z][A-Z_]+[A-Z])\)`)
	require.Len(t, services(), 2)
	for _, service := range services() {
		for i := range service.Methods().Len() {
			name := string(service.Methods().Get(i).Name())
			comment, section := rpcComment(t, text, name), pageSection(t, page, name)
			for _, want := range []string{"When:", "OK promises:", "condition", "the sidecar then"} {
				require.Contains(t, comment, want, "comment of %s", name)
			}
			require.Contains(t, section, "the sidecar then", name)
			for _, rule := range protoRule.FindAllStringSubmatch(comment, -1) {
				require.Contains(t, section, "**"+rule[1]+"**", "%s states it elsewhere", name)
			}
			for _, match := range reason.FindAllStringSubmatch(comment, -1) {
				require.Contains(t, section, match[1], "the page leaves it out of %s", name)
			}
		}
	}
}

// codesOfReasons reads the code that opens the comment of each reason in types.proto.
func codesOfReasons(t *testing.T) map[string]string {
	t.Helper()
	codes := map[string]string{}
	value := regexp.MustCompile(`^  ERROR_REASON_([A-Z_]+) = \d+;$`)
	code := regexp.MustCompile(`^  // ([A-Z_]+): `)
	first := ""
	for _, line := range strings.Split(read(t, "types.proto"), "\n") {
		switch {
		case strings.HasPrefix(line, "  //"):
			if first == "" {
				first = line
			}
			continue
		case value.MatchString(line):
			if match := code.FindStringSubmatch(first); match != nil {
				codes[value.FindStringSubmatch(line)[1]] = match[1]
			}
		}
		first = ""
	}
	return codes
}

func TestEveryReasonIsExplained(t *testing.T) {
	page, codes := read(t, docPath), codesOfReasons(t)
	values := sinkv1.ErrorReason(0).Descriptor().Values()
	require.Len(t, codes, values.Len()-1)
	for i := 1; i < values.Len(); i++ {
		reason := sinkv1.ErrorReason(values.Get(i).Number())
		row := regexp.MustCompile(`(?m)^\| ` + reason.Wire() + ` \| ([A-Z_]+) \|`).FindStringSubmatch(page)
		require.NotNil(t, row, "the page has no row for %s", reason.Wire())
		require.Equal(t, codes[reason.Wire()], row[1], "code of %s", reason.Wire())
		require.Equal(t, reason, sinkv1.ParseErrorReason(reason.Wire()))
	}
}

func TestReasonsOutsideTheListAreUnspecified(t *testing.T) {
	for _, word := range []string{"", "UNSPECIFIED", "fenced", "ERROR_REASON_FENCED", "NO_SUCH"} {
		require.Equal(t, sinkv1.ErrorReason_ERROR_REASON_UNSPECIFIED, sinkv1.ParseErrorReason(word), word)
	}
	require.Empty(t, sinkv1.ErrorReason_ERROR_REASON_UNSPECIFIED.Wire())
	require.Empty(t, sinkv1.ErrorReason(9999).Wire())
}

func TestEveryCapabilityIsExplained(t *testing.T) {
	page := read(t, docPath)
	values := sinkv1.Capability(0).Descriptor().Values()
	for i := 1; i < values.Len(); i++ {
		name := strings.TrimPrefix(string(values.Get(i).Name()), "CAPABILITY_")
		require.Contains(t, page, "\n| "+name+" | ")
	}
}
