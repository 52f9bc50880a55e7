package admin

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

// docs/operating.md names every metric and every field of /statusz.
func TestOperatingPageNamesEverything(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/operating.md")
	require.NoError(t, err)
	page := string(text)
	registry := prometheus.NewRegistry()
	status := halted()
	registry.MustRegister(newCollector(func() pipeline.Status { return *status }, "v1"))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Greater(t, len(families), 15)
	for _, family := range families {
		require.Contains(t, page, "`"+family.GetName(), "metric")
	}
	for field := range reflect.TypeFor[Report]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		require.Contains(t, page, "`"+name+"`", "field of /statusz")
	}
	for _, state := range states {
		require.Contains(t, page, string(state), "state")
	}
}
