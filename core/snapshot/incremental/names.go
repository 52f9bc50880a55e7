package incremental

import (
	"strings"
)

// Resolve finds the table that somebody means: schema and table or the table alone, each as
// it is or as SQL would have it, in quotes where it must be. A text that may mean
// several is refused with their quoted names.
func Resolve(name string, members []Member) (Member, error) {
	schema, table, parsed := identifiers(name)
	var found []Member
	for _, m := range members {
		if name == m.Quoted() {
			return m, nil
		}
		literal := name == m.Name || name == m.String()
		meant := parsed && table.is(m.Name) && (schema == nil || schema.is(m.Schema))
		if literal || meant {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Member{}, refuse("%s is not a table of the publications, as they were looked at last", name)
	}
	var names []string
	for _, m := range found {
		names = append(names, m.Quoted())
	}
	return Member{}, refuse("%s may be any of %s; name one of these as it is here", name, strings.Join(names, ", "))
}

// Quoted is the name as Resolve takes it without doubt.
func (m Member) Quoted() string { return quote(m.Schema) + "." + quote(m.Name) }

func quote(name string) string {
	plain := func(c rune) bool { return c >= 'a' && c <= 'z' || c == '_' || c >= '0' && c <= '9' }
	if name != "" && strings.IndexFunc(name, func(c rune) bool { return !plain(c) }) < 0 && (name[0] < '0' || name[0] > '9') {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// identifier is one part of a name. Postgres folds one without quotes to lower case.
type identifier struct {
	text   string
	quoted bool
}

func (i *identifier) is(name string) bool {
	return i.text == name || !i.quoted && strings.ToLower(i.text) == name
}

// identifiers splits table or schema.table; parsed is false for any other text.
func identifiers(text string) (schema, table *identifier, parsed bool) {
	first, rest, ok := next(text)
	switch {
	case !ok:
		return nil, nil, false
	case rest == "":
		return nil, first, true
	}
	second, rest, ok := next(rest)
	return first, second, ok && rest == ""
}

// next takes an identifier and the dot behind it off a text.
func next(text string) (i *identifier, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		word, rest, dot := strings.Cut(text, ".")
		ok = word != "" && !strings.Contains(word, `"`) && (!dot || rest != "")
		return &identifier{word, false}, rest, ok
	}
	var b strings.Builder
	for at := 1; at < len(text); at++ {
		switch {
		case text[at] != '"':
			b.WriteByte(text[at])
		case strings.HasPrefix(text[at+1:], `"`):
			b.WriteByte('"')
			at++
		default:
			rest = text[at+1:]
			ok = b.Len() > 0 && (rest == "" || len(rest) > 1 && rest[0] == '.')
			return &identifier{b.String(), true}, strings.TrimPrefix(rest, "."), ok
		}
	}
	return nil, "", false
}
