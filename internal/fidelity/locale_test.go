package fidelity_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/replicant-sidecar/replicant-sidecar/internal/pgembed/pgtest"
)

// foreign is a locale that prints money as nobody does, made for this test.
const foreign = "xx_XX"

// foreignSource is its source: of POSIX but for money.
const foreignSource = `LC_MONETARY
int_curr_symbol "XYZ "
currency_symbol "Y"
mon_decimal_point ","
mon_thousands_sep "."
mon_grouping 3;3
positive_sign ""
negative_sign "-"
int_frac_digits 3
frac_digits 3
p_cs_precedes 0
p_sep_by_space 1
n_cs_precedes 0
n_sep_by_space 1
p_sign_posn 1
n_sign_posn 0
END LC_MONETARY
`

// money is true when the machine could make the locale: lc_monetary can be tried then.
var money bool

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fidelity")
	if err != nil {
		panic(err)
	}
	money = makeLocale(dir)
	pgtest.Main(m, pgtest.NoLeaks(), pgtest.AtEnd(func() { _ = os.RemoveAll(dir) }))
}

// makeLocale lets the servers of this test find the locale. It needs localedef, as glibc
// has it.
func makeLocale(dir string) bool {
	source := foreignSource
	for _, category := range []string{"CTYPE", "COLLATE", "TIME", "NUMERIC", "MESSAGES"} {
		source += fmt.Sprintf("LC_%s\ncopy \"POSIX\"\nEND LC_%s\n", category, category)
	}
	if os.Chmod(dir, 0o755) != nil || os.WriteFile(filepath.Join(dir, "source"), []byte(source), 0o644) != nil {
		return false
	}
	localedef := exec.Command("localedef", "-c", "-i", filepath.Join(dir, "source"), "-f", "ANSI_X3.4-1968", filepath.Join(dir, foreign))
	_ = localedef.Run() // it warns of what is left out, by its exit code too
	if _, err := os.Stat(filepath.Join(dir, foreign, "LC_MONETARY")); err != nil {
		return false
	}
	return os.Setenv("LOCPATH", dir) == nil
}
