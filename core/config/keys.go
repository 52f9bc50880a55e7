package config

import (
	"encoding/csv"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Key is one setting with its three names.
type Key struct {
	Path, Env, Flag    string
	Group, Description string
	// Default is written as a user would; Shown stands in its place in help and docs
	// where the default is made from something else.
	Default, Shown string
	Enum           []string
	Secret         bool

	field []int
	typ   reflect.Type
}

// Keys lists every setting in the order of the struct.
var Keys = sync.OnceValue(func() []Key { return collectKeys(reflect.TypeFor[Config](), "", nil) })

func collectKeys(t reflect.Type, prefix string, at []int) []Key {
	var keys []Key
	for i := range t.NumField() {
		f := t.Field(i)
		path, field := prefix+f.Tag.Get("yaml"), append(slices.Clone(at), i)
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, collectKeys(f.Type, path+".", field)...)
			continue
		}
		key := Key{
			Path: path, Env: f.Tag.Get("env"), Flag: f.Tag.Get("flag"),
			Group: f.Tag.Get("group"), Description: f.Tag.Get("description"),
			Default: f.Tag.Get("default"), Shown: f.Tag.Get("shown"),
			Secret: f.Tag.Get("secret") == "true", field: field, typ: f.Type,
		}
		if enum := f.Tag.Get("enum"); enum != "" {
			key.Enum = strings.Split(enum, ",")
		}
		keys = append(keys, key)
	}
	return keys
}

// findKey looks a key up by its path; section is true for the name of a group of keys.
func findKey(path string) (key *Key, section bool) {
	for i := range Keys() {
		k := &Keys()[i]
		if k.Path == path {
			return k, false
		}
		section = section || strings.HasPrefix(k.Path, path+".")
	}
	return nil, section
}

// IsBool reports whether the flag may stand without a value.
func (k *Key) IsBool() bool { return k.typ.Kind() == reflect.Bool }

// isList reports whether the file holds a list here.
func (k *Key) isList() bool { return k.typ.Kind() == reflect.Slice }

// isText reports whether the file holds free text here, not a number or a switch.
func (k *Key) isText() bool {
	switch k.typ {
	case reflect.TypeFor[Duration](), reflect.TypeFor[Size]():
		return false
	}
	return k.typ.Kind() == reflect.String
}

// value is the key's present value in c.
func (k *Key) value(c *Config) reflect.Value {
	return reflect.ValueOf(c).Elem().FieldByIndex(k.field)
}

// parse reads a value as it is written in the environment or as a flag. The second
// result says what is wrong, without the value; it is empty when all is well.
func (k *Key) parse(text string) (any, string) {
	if strings.ContainsRune(text, 0) {
		return nil, "holds a zero byte"
	}
	switch k.typ {
	case reflect.TypeFor[Duration]():
		return both(parseDuration(text))
	case reflect.TypeFor[Size]():
		return both(parseSize(text))
	case reflect.TypeFor[DSN]():
		return DSN(text), ""
	case reflect.TypeFor[[]string]():
		return both(splitList(text))
	}
	switch k.typ.Kind() {
	case reflect.Bool:
		return both(parseBool(text))
	case reflect.Int:
		return both(parseInt(text))
	case reflect.Uint32:
		return both(parseUint32(text))
	}
	if len(k.Enum) > 0 && !slices.Contains(k.Enum, text) {
		return nil, "is one of " + strings.Join(k.Enum, ", ")
	}
	return text, ""
}

func both[T any](v T, problem string) (any, string) { return v, problem }

func parseBool(text string) (bool, string) {
	switch text {
	case "true":
		return true, ""
	case "false":
		return false, ""
	}
	return false, "is true or false"
}

func parseInt(text string) (int, string) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, "wants a whole number"
	}
	return n, ""
}

func parseUint32(text string) (uint32, string) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, "wants a whole number from 0 to 4294967295"
	}
	return uint32(n), ""
}

// splitList reads one line of comma-separated values with CSV quoting, so that every
// name can be written.
func splitList(text string) ([]string, string) {
	if text == "" {
		return []string{}, ""
	}
	r := csv.NewReader(strings.NewReader(text))
	fields, err := r.Read()
	if err != nil {
		return nil, `wants names separated by commas; a name with a comma or a quote stands in double quotes, an inner quote is doubled`
	}
	if _, err := r.Read(); err == nil {
		return nil, "wants one line; a name with a line break stands in double quotes"
	}
	return fields, ""
}

// joinList is the inverse of splitList.
func joinList(names []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	_ = w.Write(names)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}
