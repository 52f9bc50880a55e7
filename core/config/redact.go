package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
)

const masked = "***"

// DSN is the address of a database, which may hold a password. Everything that prints
// it prints Redacted; only Reveal gives the text.
type DSN string

// Reveal is the whole address, password included, for the driver alone.
func (d DSN) Reveal() string { return string(d) }

// String masks everything that is not known to be harmless.
func (d DSN) String() string {
	if d == "" {
		return ""
	}
	parts := d.parts()
	if parts == nil {
		return "(unreadable, not shown)"
	}
	words := make([]string, len(parts))
	for i, p := range parts {
		value := masked
		if slices.Contains(harmless, p[0]) {
			value = quoteWord(p[1])
		}
		words[i] = p[0] + "=" + value
	}
	return strings.Join(words, " ")
}

// GoString, MarshalText and LogValue close the other ways out.
func (d DSN) GoString() string { return d.String() }

// MarshalText masks, as String does.
func (d DSN) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// LogValue masks, as String does.
func (d DSN) LogValue() slog.Value { return slog.StringValue(d.String()) }

// harmless are the parts of an address that are shown. All others are masked, also
// those this list has not heard of.
var harmless = []string{
	"host", "hostaddr", "port", "dbname", "database", "user", "sslmode", "sslrootcert", "sslcert",
	"application_name", "connect_timeout", "target_session_attrs", "service",
}

// parts takes the address apart into keys and values; nil when it is neither form. The
// result is for showing only: the driver reads the address itself.
func (d DSN) parts() [][2]string {
	if strings.HasPrefix(string(d), "postgres://") || strings.HasPrefix(string(d), "postgresql://") {
		return urlParts(string(d))
	}
	return wordParts(string(d))
}

func urlParts(text string) [][2]string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Fragment != "" {
		return nil
	}
	if strings.Contains(u.Path, "@") || strings.Contains(u.RawQuery, "@") {
		return nil // an unescaped password that was cut in the wrong place
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil
	}
	var parts [][2]string
	add := func(key, value string) {
		if value != "" {
			parts = append(parts, [2]string{key, value})
		}
	}
	add("host", u.Host)
	add("dbname", strings.TrimPrefix(u.Path, "/"))
	if u.User != nil {
		add("user", u.User.Username())
		password, _ := u.User.Password()
		add("password", password)
	}
	keys := make([]string, 0, len(query))
	for key := range query {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		add(key, query.Get(key))
	}
	return append([][2]string{}, parts...)
}

// wordParts reads libpq's form: key = value, with quotes and backslashes.
// Source: https://www.postgresql.org/docs/current/libpq-connect.html (Keyword/Value)
func wordParts(text string) [][2]string {
	var parts [][2]string
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, found := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		if !found || key == "" || strings.ContainsAny(key, " \t\r\n'\\") {
			return nil
		}
		value, left, ok := word(strings.TrimSpace(after))
		if !ok {
			return nil
		}
		parts, rest = append(parts, [2]string{key, value}), left
	}
	return parts
}

// word reads one value and returns what follows it.
func word(text string) (value, rest string, ok bool) {
	quoted := strings.HasPrefix(text, "'")
	var b strings.Builder
	i := 0
	if quoted {
		i = 1
	}
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case quoted && c == '\'':
			return b.String(), text[i+1:], true
		case !quoted && (c == ' ' || c == '\t' || c == '\n' || c == '\r'):
			return b.String(), text[i:], true
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", !quoted
}

func quoteWord(value string) string {
	if value != "" && !strings.ContainsAny(value, " \t\r\n'\\") {
		return value
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
}

// Redacted is a copy that may be shown: secrets are masked for good.
func (c Config) Redacted() Config {
	c.Source = DSN(c.Source.String())
	c.CheckpointStore.Postgres.DSN = DSN(c.CheckpointStore.Postgres.DSN.String())
	return c
}

// Text is the key's value in c as a user would write it, secrets masked.
func (k *Key) Text(c *Config) string {
	switch v := k.value(c).Interface().(type) {
	case []string:
		return joinList(v)
	case interface{ String() string }:
		return v.String()
	default:
		return fmt.Sprint(v)
	}
}

// Any is the key's value in c for JSON: lists, numbers and switches keep their type,
// durations and sizes are text, secrets masked.
func (k *Key) Any(c *Config) any {
	v := k.value(c).Interface()
	if s, ok := v.(fmt.Stringer); ok {
		return s.String()
	}
	return v
}
