//go:build failpoints

package failpoint

import (
	"os"
	"sync"
)

// Enabled is true in a test build.
const Enabled = true

// The environment of a process with armed points.
const (
	PointsEnv  = "REPLICANT_FAILPOINTS"
	WitnessEnv = "REPLICANT_FAILPOINT_WITNESS"
)

var armed = sync.OnceValues(func() (*arms, error) {
	return parse(os.Getenv(PointsEnv), os.Getenv(WitnessEnv))
})

// Load reads what the environment arms. A program calls it first of all and ends with
// the error, which names what was not understood.
func Load() error {
	_, err := armed()
	return err
}

// Hit is passed at a point. It returns an error only where one is armed. A program that
// forgot Load and has a wrong environment panics here: what was armed is never ignored.
func Hit(p Point) error {
	a, err := armed()
	if err != nil {
		panic("failpoint: " + err.Error())
	}
	return a.pass(p)
}
