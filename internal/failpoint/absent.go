//go:build !failpoints

package failpoint

// Enabled is true in a test build.
const Enabled = false

// Hit is passed at a point. In this build nothing happens.
func Hit(Point) error { return nil }

// Load checks what the environment arms. In this build nothing can be armed.
func Load() error { return nil }
