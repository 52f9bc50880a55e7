package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFormats(t *testing.T) {
	var b bytes.Buffer
	log, err := New(&b, FormatAuto, "info")
	require.NoError(t, err)
	log.Debug("not shown")
	log.Info("hello", KeySlot, "s", "n", 3)
	var line map[string]any
	require.NoError(t, json.Unmarshal(b.Bytes(), &line), "what is no terminal gets JSON")
	require.Equal(t, "s", line[KeySlot])

	b.Reset()
	log, err = New(&b, FormatText, "debug")
	require.NoError(t, err)
	log.Debug("hello", KeySlot, "s")
	require.Contains(t, b.String(), "DBG hello slot=s")
	require.NotContains(t, b.String(), "\x1b")

	_, err = New(&b, "xml", "info")
	require.Error(t, err)
	_, err = New(&b, FormatText, "loud")
	require.Error(t, err)
}

func TestSecretsAreMasked(t *testing.T) {
	for _, format := range []string{FormatText, FormatJSON} {
		var b bytes.Buffer
		log, err := New(&b, format, "info")
		require.NoError(t, err)
		log.Info("x", "password", "hunter2", "token", "hunter2", "dsn", "hunter2",
			"a", "postgres://u:hunter2@h/d", "b", "host=h password=hunter2 user=u", "c", `password='hun ter2 hunter2'`,
			"d", errors.New("cannot use postgres://u:hunt@er2hunter2@h/d"),
			slog.Group("g", "e", "postgres://u:hunter2@h", "authorization", "Bearer hunter2"))
		require.NotContains(t, b.String(), "hunter2", format)
		require.Contains(t, b.String(), "user=u")
		require.Contains(t, b.String(), "@h/d")
	}
}
