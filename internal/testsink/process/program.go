package process

import "os"

// Program is the path of what Prepare built.
func Program() string { return os.Getenv(envProgram) }
