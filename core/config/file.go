package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// fileValues is a decoded file: typed values by path, and where each stands.
type fileValues struct {
	values map[string]any
	lines  map[string]*token.Position
	faults []*Fault
}

// fileReader walks the parsed file against the list of keys. It goes on after a fault,
// so that a run reports them all.
type fileReader struct {
	fileValues
	name string
	text *snippets
}

// readFile decodes a configuration file strictly.
func readFile(name string, text []byte) fileValues {
	r := &fileReader{name: name, text: newSnippets(text)}
	r.values, r.lines = map[string]any{}, map[string]*token.Position{}
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		r.syntax(err)
		return r.fileValues
	}
	docs := 0
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if docs++; docs > 1 {
			r.fault("", doc.Body.GetToken(), "a second YAML document: a configuration is one document")
			continue
		}
		r.hideSecrets(doc.Body, "")
		r.section(doc.Body, "")
	}
	return r.fileValues
}

// syntax reports a file that is not YAML. Without a tree it is not known where secrets
// stand, so every line that may hold one is left out, and so is the parser's text.
func (r *fileReader) syntax(err error) {
	var yamlErr yaml.Error
	if !errors.As(err, &yamlErr) || yamlErr.GetToken() == nil {
		r.faults = append(r.faults, &Fault{Place: r.name, Text: "this is not valid YAML"})
		return
	}
	r.text.hideSuspects()
	at := yamlErr.GetToken()
	text := yamlErr.GetMessage()
	if r.text.hidden(at.Position.Line) {
		text = "this is not valid YAML; the line may hold a secret and is not shown"
	}
	r.fault("", at, "%s", text)
}

func (r *fileReader) fault(key string, at *token.Token, format string, args ...any) {
	f := &Fault{Key: key, Place: r.name, Text: fmt.Sprintf(format, args...)}
	if at != nil {
		f.Line, f.Column = at.Position.Line, at.Position.Column
		f.Snippet = r.text.around(f.Line, f.Column)
	}
	r.faults = append(r.faults, f)
}

// section reads one mapping; prefix is "" or ends with a dot.
func (r *fileReader) section(node ast.Node, prefix string) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		r.fault(strings.TrimSuffix(prefix, "."), node.GetToken(), "wants keys with values below it (a YAML mapping)")
		return
	}
	for _, pair := range mapping.Values {
		r.pair(pair, prefix)
	}
}

// plainKey is a key that may be printed: nothing but a name.
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)

func (r *fileReader) pair(pair *ast.MappingValueNode, prefix string) {
	at := pair.Key.GetToken()
	if pair.Key.IsMergeKey() {
		r.fault("", at, "merge keys are not supported; write the settings out")
		return
	}
	path := prefix + at.Value
	key, section := findKey(path)
	switch {
	case section && pair.Value.Type() == ast.NullType: // all below it is commented out
	case section:
		r.section(pair.Value, path+".")
	case key == nil && !plainKey.MatchString(at.Value):
		r.fault("", at, "unknown key; it may hold a secret and is not shown")
	case key == nil:
		r.fault("", at, "unknown key %q%s", path, didYouMean(path))
	default:
		r.value(key, pair.Value, at)
	}
}

func (r *fileReader) value(key *Key, node ast.Node, at *token.Token) {
	r.lines[key.Path] = node.GetToken().Position
	if node.Type() == ast.NullType {
		r.lines[key.Path] = at.Position
		r.fault(key.Path, at, "has no value; give one or remove the line")
		return
	}
	if key.isList() {
		r.list(key, node)
		return
	}
	text, ok := scalar(node)
	switch {
	case !ok:
		r.fault(key.Path, node.GetToken(), "wants one value, no list, mapping, alias or tag")
		return
	case key.isText() && !isString(node):
		r.fault(key.Path, node.GetToken(), "wants text; put it in quotes")
		return
	}
	value, problem := key.parse(text)
	if problem != "" {
		r.fault(key.Path, node.GetToken(), "%s", problem)
		return
	}
	r.values[key.Path] = value
}

func (r *fileReader) list(key *Key, node ast.Node) {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		r.fault(key.Path, node.GetToken(), "wants a list: one name a line after a dash, or [a, b]")
		return
	}
	names := []string{}
	for _, item := range sequence.Values {
		text, _ := scalar(item)
		if !isString(item) {
			r.fault(key.Path, item.GetToken(), "holds an entry that is no text; put names in quotes")
			continue
		}
		names = append(names, text)
	}
	r.values[key.Path] = names
}

func isString(node ast.Node) bool {
	return node.Type() == ast.StringType || node.Type() == ast.LiteralType
}

// scalar is the text of a plain value; ok is false for everything else.
func scalar(node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return node.GetToken().Value, true
	}
	return "", false
}

// hideSecrets masks, in all snippets, the values of secret keys and of unknown keys: a
// misspelt "source" holds the same password.
func (r *fileReader) hideSecrets(node ast.Node, prefix string) {
	mapping, ok := node.(*ast.MappingNode)
	if !ok {
		r.text.hide(node.GetToken().Position.Line, lastLine(node), 0)
		return
	}
	for i, pair := range mapping.Values {
		at := pair.Key.GetToken()
		key, section := findKey(prefix + at.Value)
		if section {
			if _, ok := pair.Value.(*ast.MappingNode); ok {
				r.hideSecrets(pair.Value, prefix+at.Value+".")
				continue
			}
		}
		if key != nil && !key.Secret {
			continue
		}
		last := lastLine(pair.Value)
		if i+1 < len(mapping.Values) {
			// Folded and quoted values span lines that have no token of their own.
			last = max(last, mapping.Values[i+1].Key.GetToken().Position.Line-1)
		} else {
			last = max(last, r.text.endOfBlock(at.Position.Line, at.Position.Column))
		}
		keep := 0
		if plainKey.MatchString(at.Value) {
			keep = at.Position.Column - 1 + len(at.Value)
		}
		r.text.hide(at.Position.Line, last, keep)
	}
}

// lastLine is the highest line on which a token of the node begins.
func lastLine(node ast.Node) int {
	last := node.GetToken().Position.Line
	ast.Walk(visitor(func(n ast.Node) {
		if t := n.GetToken(); t != nil {
			last = max(last, t.Position.Line)
		}
	}), node)
	return last
}

type visitor func(ast.Node)

func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}
