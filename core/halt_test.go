package core

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryHaltCodeIsExplained(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "halt_codes.go", nil, 0)
	require.NoError(t, err)
	declared := map[HaltCode]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			code, err := strconv.Unquote(lit.Value)
			require.NoError(t, err)
			declared[HaltCode(code)] = true
		}
		return true
	})
	require.Greater(t, len(declared), 40)
	for _, text := range HaltTexts() {
		require.True(t, declared[text.Code], "%s is explained but not declared", text.Code)
		delete(declared, text.Code)
		require.NotEmpty(t, text.Happened, text.Code)
		require.NotEmpty(t, text.Means, text.Code)
		require.NotEmpty(t, text.Do, text.Code)
	}
	require.Empty(t, declared, "declared without an explanation, or twice")
}

func TestExitCodes(t *testing.T) {
	require.Equal(t, ExitDrained, ExitCode(nil))
	require.Equal(t, ExitInternal, ExitCode(ErrBadLSN))
	require.Equal(t, ExitUsage, ExitCode(NewHalt(HaltConfigInvalid, "", "")))
	require.Equal(t, ExitHalted, ExitCode(NewHalt(HaltSlotAhead, "", "")))
	require.Equal(t, ExitFenced, ExitCode(NewHalt(HaltFenced, "", "")))
	require.Equal(t, ExitInternal, ExitCode(NewHalt("no_such_code", "", "")))
}
