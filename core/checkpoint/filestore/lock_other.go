//go:build !unix

package filestore

import (
	"errors"
	"os"
)

// lockFile refuses: without a lock that ends with its process there is no store.
func lockFile(*os.File) (bool, error) { return false, errors.ErrUnsupported }
