package pgstore_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/checkpoint/pgstore"
)

// TestStatementInTheDocs: who makes the table by hand makes this one.
func TestStatementInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operating.md")
	require.NoError(t, err)
	require.Contains(t, string(page), pgstore.CreateTable(pgstore.TableDefault)+";\n```")
}
